// Which tokens are hidden from the model, and behind what.
#include "bert_hpc/data/masking.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"

namespace bert_hpc::data {

Masker::Masker(const MaskingOptions& options, std::int64_t max_length) : options_(options) {
  core::require(options.probability > 0 && options.probability <= 1 && options.vocabulary_size > 0,
                "masking needs a probability in (0, 1] and a vocabulary");
  if (options.special_ids.mask < 0) {
    throw core::Error(core::ExitCode::data,
                      "The shards' tokenizer has no mask token, which masking needs; prepare the text with a "
                      "vocabulary that has [MASK].");
  }
  const std::uint64_t key = core::mix64(core::mix64(options.seed) ^ 0x6D61736B696E67ull);
  key0_ = static_cast<std::uint32_t>(key);
  key1_ = static_cast<std::uint32_t>(key >> 32);
  candidates_.reserve(static_cast<std::size_t>(max_length));
}

std::int64_t Masker::count(std::int64_t maskable) const {
  if (maskable <= 0) return 0;
  return std::clamp<std::int64_t>(std::llround(options_.probability * static_cast<double>(maskable)), 1, maskable);
}

bool Masker::continues(std::int32_t id) const {
  const auto at = static_cast<std::size_t>(id);
  return at < options_.continues_word.size() && options_.continues_word[at];
}

/// Moves what is masked to the front: candidates by key, with so many tokens or, of whole words, at most so many.
std::vector<Masker::Candidate>::iterator Masker::choose(std::int64_t tokens) {
  const auto by_key = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.key, a.position) < std::tie(b.key, b.position);
  };
  if (options_.continues_word.empty()) {
    const auto end = candidates_.begin() + tokens;
    std::nth_element(candidates_.begin(), end, candidates_.end(), by_key);
    return end;
  }
  std::sort(candidates_.begin(), candidates_.end(), by_key);
  auto end = candidates_.begin();
  for (const Candidate& word : candidates_) {
    if (word.length > tokens) continue;
    tokens -= word.length;
    *end++ = word;
  }
  return end;
}

std::int64_t Masker::mask(std::int64_t sample, std::int64_t epoch, std::span<std::int32_t> ids, std::int32_t* positions,
                          std::int32_t* labels) {
  const auto bits = [&](std::uint32_t position) {
    const auto s = static_cast<std::uint64_t>(sample);
    return core::philox(position, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(s),
                        static_cast<std::uint32_t>(s >> 32), key0_, key1_);
  };
  const SpecialIds& special = options_.special_ids;
  const auto is_special = [&](std::int32_t id) {
    return id == special.cls || id == special.sep || id == special.pad || id == special.unk || id == special.mask;
  };
  candidates_.clear();
  std::int64_t maskable = 0;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    if (is_special(ids[p])) continue;
    ++maskable;
    if (p > 0 && continues(ids[p]) && !is_special(ids[p - 1])) {
      ++candidates_.back().length;
      continue;
    }
    const core::Philox4 random = bits(static_cast<std::uint32_t>(p));
    candidates_.push_back({std::uint64_t{random.word[0]} << 32 | random.word[1], static_cast<std::int32_t>(p), 1});
  }
  const auto end = choose(count(maskable));
  std::sort(candidates_.begin(), end, [](const Candidate& a, const Candidate& b) { return a.position < b.position; });
  std::int64_t masked = 0;
  for (auto candidate = candidates_.begin(); candidate != end; ++candidate) {
    for (std::int32_t position = candidate->position; position < candidate->position + candidate->length; ++position) {
      std::int32_t& id = ids[static_cast<std::size_t>(position)];
      positions[masked] = position;
      labels[masked++] = id;
      const core::Philox4 random = bits(static_cast<std::uint32_t>(position));
      const float fate = core::uniform_float(random.word[2]);
      if (fate < 0.8f) {
        id = special.mask;
      } else if (fate < 0.9f) {
        // The upper half of a product maps 32 bits evenly to [0, vocabulary).
        const auto vocabulary = static_cast<std::uint64_t>(options_.vocabulary_size);
        id = static_cast<std::int32_t>(random.word[3] * vocabulary >> 32);
      }
    }
  }
  return masked;
}

}  // namespace bert_hpc::data
