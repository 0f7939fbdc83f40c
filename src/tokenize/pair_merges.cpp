// Counts of pairs are kept up to date merge by merge: only the words in which a merged pair stands are looked at. The
// queue may hold outdated counts; an entry is compared with the true count when it comes up, and goes back if it was
// too high.
#include "pair_merges.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

namespace bert_hpc::tokenize {
namespace {

using Pair = std::uint64_t;  // left piece << 32 | right piece

Pair pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(left) << 32 | static_cast<std::uint32_t>(right);
}

struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {  // the queue's top: most frequent, then oldest pieces
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairState {
  std::int64_t count = 0;
  std::vector<std::int32_t> words;  // where it stands or stood; may name a word twice
};

class PairMerger {
 public:
  explicit PairMerger(std::vector<TrainingWord> words) : words_(std::move(words)) {}

  void run(const std::function<bool()>& has_room, const std::function<std::int32_t(std::int32_t, std::int32_t)>& join) {
    for (std::size_t w = 0; w < words_.size(); ++w) count_word(static_cast<std::int32_t>(w));
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
    while (has_room() && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[top.pair].count;
      if (count < 1) continue;
      if (count != top.count) {
        queue_.push({count, top.pair});
        continue;
      }
      const auto left = static_cast<std::int32_t>(top.pair >> 32), right = static_cast<std::int32_t>(top.pair);
      merge(top.pair, left, right, join(left, right));
    }
  }

 private:
  void change(std::int32_t left, std::int32_t right, std::int64_t by, std::int32_t word) {
    if (left < 0 || right < 0) return;
    const Pair pair = pair_of(left, right);
    PairState& state = pairs_[pair];
    state.count += by;
    if (by > 0) {
      if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
      touched_.push_back(pair);
    }
  }

  void count_word(std::int32_t w) {
    const TrainingWord& word = words_[static_cast<std::size_t>(w)];
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      change(word.pieces[i], word.pieces[i + 1], word.count, w);
    }
  }

  void merge(Pair pair, std::int32_t left, std::int32_t right, std::int32_t merged) {
    const std::vector<std::int32_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    touched_.clear();
    for (const std::int32_t w : words) merge_in_word(w, left, right, merged);
    pairs_.erase(pair);
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const Pair grown : touched_) {
      if (const auto found = pairs_.find(grown); found != pairs_.end()) queue_.push({found->second.count, grown});
    }
  }

  void merge_in_word(std::int32_t w, std::int32_t left, std::int32_t right, std::int32_t merged) {
    TrainingWord& word = words_[static_cast<std::size_t>(w)];
    std::vector<std::int32_t>& pieces = word.pieces;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (pieces[i] != left || pieces[i + 1] != right) continue;
      if (i > 0) {
        change(pieces[i - 1], left, -word.count, w);
        change(pieces[i - 1], merged, word.count, w);
      }
      if (i + 2 < pieces.size()) {
        change(right, pieces[i + 2], -word.count, w);
        change(merged, pieces[i + 2], word.count, w);
      }
      pieces[i] = merged;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  std::vector<TrainingWord> words_;
  std::unordered_map<Pair, PairState> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> touched_;  // pairs whose count grew in this merge
};

}  // namespace

void merge_pairs(std::vector<TrainingWord> words, const std::function<bool()>& has_room,
                 const std::function<std::int32_t(std::int32_t left, std::int32_t right)>& join) {
  PairMerger(std::move(words)).run(has_room, join);
}

}  // namespace bert_hpc::tokenize
