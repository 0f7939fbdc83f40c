// Order by hash and equal cuts. Packed sequence n is tokens [n · room, (n + 1) · room) of the split's rows laid end to
// end, found by binary search in the running sum of row lengths.
#include "bert_hpc/prep/split_layout.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "bert_hpc/data/group_data.hpp"
#include "bert_hpc/prep/key_order.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "row_labels.hpp"
#include "splits.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::uint64_t use_order = 2, use_pairs = 4;  // other than the keys that divide the splits
// Distances in sequences at which a sequence, and before it its offset, is prefetched.
constexpr std::int64_t sequences_ahead = 16, sequences_far_ahead = 48;

void shuffle(std::vector<RowNumber>& numbers, std::int64_t seed) {
  sort_by_key(numbers, [seed](RowNumber number) { return random_key(seed, use_order, number); });
}

}  // namespace

SplitLayout::SplitLayout(Split split, const PrepConfig& config, const RowTable& table, const RowStore& row_store,
                         const tokenize::Tokenizer& tokenizer)
    : table_(table),
      row_store_(row_store),
      store_(row_store.tokens()),
      parts_(config, static_cast<RowStatus>(split)),
      packs_(config.packs()),
      pairs_documents_(config.pairs_documents()),
      ranks_(config.has_candidates()),
      parts_texts_(config.parts_texts()),
      frame_(config.sequence(tokenizer.sequence()), tokenizer.special_ids(), pairs_documents_),
      room_(config.tokenizer.max_tokens - frame_.special_tokens()) {
  std::vector<RowNumber> rows;
  rows.reserve(
      static_cast<std::size_t>(std::count(table.status.begin(), table.status.end(), static_cast<RowStatus>(split))));
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (table.status[static_cast<std::size_t>(row)] == static_cast<RowStatus>(split)) {
      rows.push_back(static_cast<RowNumber>(row));
    }
  }
  if (packs_) {
    order_ = packed_sequences(std::move(rows));
    if (split == Split::train) shuffle(order_, config.split.seed);
  } else if (pairs_documents_) {
    order_ = paired_passages(rows, config, split);
    if (split == Split::train) shuffle(order_, config.split.seed);
  } else {
    if (ranks_) {
      order_queries(rows, config, split == Split::train);
    } else if (split == Split::train) {
      shuffle(rows, config.split.seed);
    }
    by_row_ = std::all_of(rows.begin(), rows.end(), [this](RowNumber row) { return store_.count(row) == 1; });
    order_ = by_row_ ? std::move(rows) : sequences_of(rows);
  }
  for (std::int64_t index = 0; index < sequences(); ++index) tokens_ += length(index);
  cut(config.output.shard_tokens);
}

/// The numbers of the rows' sequences, row by row.
std::vector<RowNumber> SplitLayout::sequences_of(const std::vector<RowNumber>& rows) const {
  std::vector<RowNumber> all;
  for (const RowNumber row : rows) {
    const TokenStore::Range sequences = store_.sequences_of(row);
    for (std::int64_t s = sequences.begin; s < sequences.end; ++s) all.push_back(static_cast<RowNumber>(s));
  }
  return all;
}

/// Lays the rows end to end. Returns the numbers of the sequences that they fill.
std::vector<RowNumber> SplitLayout::packed_sequences(std::vector<RowNumber> rows) {
  rows_ = std::move(rows);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i % stride == 0) starts_.push_back(packed_tokens_);
    packed_tokens_ += store_.length(only_sequence(rows_[i]));
  }
  const std::int64_t count = (packed_tokens_ + room_ - 1) / room_;
  require_numbers(count, "sequence");
  std::vector<RowNumber> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), RowNumber{0});
  return numbers;
}

SplitLayout::Stored SplitLayout::stored(std::int64_t index) const {
  const std::int64_t number = order_[static_cast<std::size_t>(index)];
  if (by_row_) return {only_sequence(number), number};
  return {number, store_.row_of(number)};
}

std::int64_t SplitLayout::length(std::int64_t index) const {
  const std::int64_t number = order_[static_cast<std::size_t>(index)];
  if (packs_) return std::min(room_, packed_tokens_ - number * room_) + frame_.special_tokens();
  if (pairs_documents_) {
    const DocumentPair& pair = pairs_[static_cast<std::size_t>(number)];
    return static_cast<std::int64_t>(pair.first.tokens) + pair.second.tokens + frame_.special_tokens();
  }
  return parts_.tokens(store_.length(by_row_ ? only_sequence(number) : number));
}

/// Puts the rows of each query together, in the source's order.
void SplitLayout::order_queries(std::vector<RowNumber>& rows, const PrepConfig& config, bool shuffles) {
  struct Query {
    std::int64_t first;
    bool is_answerable = false;
  };
  std::unordered_map<std::uint64_t, Query> queries;
  const auto query_of = [&](RowNumber row) { return table_.queries[row]; };
  for (const RowNumber row : rows) {
    Query& query = queries.try_emplace(query_of(row), Query{row}).first->second;
    const bool is_relevant = !table_.levels.empty() && table_.levels[row] > 0;
    query.is_answerable = query.is_answerable || is_relevant;
  }
  queries_ = std::ssize(queries);
  answerable_ = std::count_if(queries.begin(), queries.end(), [](const auto& q) { return q.second.is_answerable; });
  using Key = std::tuple<std::uint64_t, std::int64_t, RowNumber>;
  std::vector<Key> keyed;
  keyed.reserve(rows.size());
  for (const RowNumber row : rows) {
    const std::int64_t first = queries.at(query_of(row)).first;
    keyed.emplace_back(shuffles ? random_key(config.split.seed, use_order, first) : 0, first, row);
  }
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::get<2>(keyed[i]);
}

std::uint64_t SplitLayout::query_at(std::int64_t index) const {
  return table_.queries[static_cast<std::size_t>(stored(index).row)];
}

/// Whether the next index is that of another row, or of another query. Windows of a row and candidates of a query stay
/// in one shard.
bool SplitLayout::ends_unit(std::int64_t index) const {
  if (packs_ || pairs_documents_ || index + 1 == sequences()) return true;
  if (ranks_) return query_at(index) != query_at(index + 1);
  return by_row_ || stored(index).row != stored(index + 1).row;
}

/// As few shards as hold about `shard_tokens` each, cut where the running sum passes their equal shares.
void SplitLayout::cut(std::int64_t shard_tokens) {
  if (order_.empty()) return;
  const std::int64_t count = std::min(sequences(), (tokens_ + shard_tokens - 1) / shard_tokens);
  const double share = static_cast<double>(tokens_) / static_cast<double>(count);
  std::int64_t sum = 0, begin = 0, sum_before = 0;
  for (std::int64_t index = 0; index < sequences(); ++index) {
    sum += length(index);
    const bool full = static_cast<double>(sum) >= share * static_cast<double>(shards_.size() + 1);
    if (full && ends_unit(index) && static_cast<std::int64_t>(shards_.size()) + 1 < count) {
      shards_.push_back({begin, index + 1, sum - sum_before});
      begin = index + 1;
      sum_before = sum;
    }
  }
  if (begin < sequences()) shards_.push_back({begin, sequences(), sum - sum_before});
}

void SplitLayout::read(std::int64_t index, Sequence& sequence) const {
  if (packs_) return read_packed(order_[static_cast<std::size_t>(index)], sequence);
  if (pairs_documents_) return read_pair(pairs_[order_[static_cast<std::size_t>(index)]], sequence);
  if (by_row_ && index + sequences_far_ahead < sequences()) {
    const std::int64_t row = order_[static_cast<std::size_t>(index + sequences_far_ahead)];
    store_.prefetch_offsets(row);
    table_.prefetch_label(row);
  }
  if (index + sequences_ahead < sequences()) {
    const Stored ahead = stored(index + sequences_ahead);
    store_.prefetch(ahead.sequence, ahead.row);
  }
  const auto [number, row] = stored(index);
  sequence.source_index = row;
  sequence.stored.resize(static_cast<std::size_t>(store_.length(number)));
  store_.read(number, row, 0, sequence.stored);
  const std::span<const std::int32_t> numbers = sequence.stored;
  const auto tokens = static_cast<std::size_t>(parts_.tokens(std::ssize(numbers)));
  if (parts_.pairs) {  // the first value is the number of tokens of type 0
    sequence.token_types.assign(tokens, 1);
    std::fill_n(sequence.token_types.begin(), std::min(static_cast<std::size_t>(numbers[0]), tokens), std::uint8_t{0});
  }
  sequence.label = label_of(table_, sequence.source_index);
  if (parts_.answers) take_answer(numbers, sequence);
  if (parts_.words) take_words(numbers, sequence);
  if (parts_.texts) {
    sequence.starts_row = store_.sequences_of(sequence.source_index).begin == number;
    if (sequence.starts_row) sequence.texts = row_store_.texts_of(sequence.source_index);
  }
  if (ranks_) take_candidate(index, sequence);
  if (parts_texts_) sequence.starts_group = store_.sequences_of(row).begin == number;
  sequence.ids = numbers.subspan(static_cast<std::size_t>(parts_.before()), tokens);
}

/// `numbers`: the sequence as the store has it.
void SplitLayout::take_answer(std::span<const std::int32_t> numbers, Sequence& sequence) const {
  const std::int32_t* answer = numbers.data() + (parts_.pairs ? 1 : 0);
  sequence.label.first = answer[0];
  sequence.label.last = answer[1];
  sequence.context_begin = answer[2];
  sequence.context_end = answer[3];
  if (!parts_.characters) return;
  const auto tokens = static_cast<std::size_t>(parts_.tokens(std::ssize(numbers)));
  const auto characters = numbers.last(2 * tokens);
  sequence.characters.assign(characters.begin(), characters.end());
}

/// `numbers`: the sequence as the store has it. sequence.label.names: the classes of the row's words.
void SplitLayout::take_words(std::span<const std::int32_t> numbers, Sequence& sequence) const {
  SequenceWords words = sequence_words(numbers.last(static_cast<std::size_t>(parts_.tokens(std::ssize(numbers)))));
  sequence.words = std::move(words.tokens);
  const std::span<const std::int32_t> classes = sequence.label.names;
  sequence.word_classes.clear();
  for (const std::int32_t word : words.numbers) {
    if (!classes.empty()) sequence.word_classes.push_back(classes[static_cast<std::size_t>(word)]);
  }
  sequence.label.words = sequence.word_classes;
}

/// Ids that the source has not are numbers of its rows: the passage's, and of a query that of its first one.
void SplitLayout::take_candidate(std::int64_t index, Sequence& sequence) const {
  sequence.starts_group = index == 0 || query_at(index - 1) != query_at(index);
  if (!parts_.texts) return;
  std::string &query = sequence.texts[0], &further = sequence.texts[1], &id = sequence.texts[2];
  const std::string row = std::to_string(sequence.source_index);
  if (query.empty()) query = row;
  if (id.empty()) id = row;
  const auto levels = table_.further_levels.find(query_at(index));
  if (sequence.starts_group && levels != table_.further_levels.end()) further = data::levels_to_json(levels->second);
}

/// Makes pairs_. Returns their numbers. Throws Error(data) if the documents cannot be paired.
std::vector<RowNumber> SplitLayout::paired_passages(const std::vector<RowNumber>& rows, const PrepConfig& config,
                                                    Split split) {
  std::vector<Document> documents;
  RowNumber most_lines = 0;
  for (const RowNumber row : rows) {
    const TokenStore::Range lines = store_.sequences_of(row);
    if (lines.begin == lines.end) continue;
    documents.push_back({static_cast<RowNumber>(lines.begin), static_cast<RowNumber>(lines.end)});
    most_lines = std::max(most_lines, documents.back().units());
  }
  const bool too_few = documents.size() == 1 && config.pair_kind() == PairKind::next_sentence;
  if (too_few || (!documents.empty() && most_lines == 1)) {
    const std::string split_has = std::string("The ") + to_string(split) + " split has ";
    throw core::Error(
        core::ExitCode::data,
        (too_few
             ? split_has + "one document, but half of the pairs need a text of another one: give it more in [split]. "
             : split_has + "documents of one line each, but a pair has two lines of one. ") +
            "A document is a row, and its lines are its sentences or paragraphs; of [source] format \"text\", unit = "
            "\"paragraph\" makes documents of lines between blank lines.");
  }
  pairs_ = pairs_of(documents,
                    {.kind = config.pair_kind(),
                     .room = room_,
                     .seed = random_key(config.split.seed, use_pairs, static_cast<std::int64_t>(split))},
                    [this](RowNumber unit) { return store_.length(unit); });
  require_numbers(std::ssize(pairs_), "sequence");
  std::vector<RowNumber> numbers(pairs_.size());
  std::iota(numbers.begin(), numbers.end(), RowNumber{0});
  return numbers;
}

std::int64_t SplitLayout::other_pairs() const {
  return std::count_if(pairs_.begin(), pairs_.end(), [](const DocumentPair& pair) { return pair.other; });
}

/// ids += the tokens of a passage.
void SplitLayout::read_passage(const Passage& passage, std::vector<std::int32_t>& ids) const {
  std::int64_t skipped = passage.skipped, left = passage.tokens;
  for (std::int64_t unit = passage.unit; left > 0; ++unit) {
    const std::int64_t length = store_.length(unit), begin = std::min(skipped, length);
    const std::int64_t count = std::min(length - begin, left);
    skipped -= begin;
    left -= count;
    const std::size_t end = ids.size();
    ids.resize(end + static_cast<std::size_t>(count));
    if (count > 0) store_.read(unit, store_.row_of(unit), begin, std::span(ids).subspan(end));
  }
}

void SplitLayout::read_pair(const DocumentPair& pair, Sequence& sequence) const {
  sequence.source_index = store_.row_of(pair.first.unit);
  sequence.label.number = pair.other ? 1 : 0;
  sequence.first.clear();
  sequence.second.clear();
  read_passage(pair.first, sequence.first);
  read_passage(pair.second, sequence.second);
  sequence.stored.clear();
  const std::int64_t of_type_0 = frame_.add(sequence.first, sequence.second, sequence.stored);
  sequence.token_types.assign(sequence.stored.size(), 1);
  std::fill_n(sequence.token_types.begin(), of_type_0, std::uint8_t{0});
  sequence.ids = sequence.stored;
}

void SplitLayout::read_packed(std::int64_t number, Sequence& sequence) const {
  std::int64_t token = number * room_;
  const std::int64_t end = std::min(token + room_, packed_tokens_);
  std::vector<std::int32_t>& ids = sequence.stored;
  sequence.first.resize(static_cast<std::size_t>(end - token));
  ids.clear();
  frame_.add(sequence.first, {}, ids);
  sequence.ids = ids;
  const auto block = std::upper_bound(starts_.begin(), starts_.end(), token) - starts_.begin() - 1;
  auto at = static_cast<std::size_t>(block * stride);
  std::int64_t start = starts_[static_cast<std::size_t>(block)];  // tokens before row rows_[at]
  std::int64_t length = store_.length(only_sequence(rows_[at]));
  const auto go_on = [&] {
    start += length;
    length = store_.length(only_sequence(rows_[++at]));
  };
  while (start + length <= token) go_on();
  sequence.source_index = rows_[at];
  std::span<std::int32_t> out =
      std::span(ids).subspan(static_cast<std::size_t>(frame_.before()), sequence.first.size());
  while (true) {
    const std::int64_t count = std::min(start + length, end) - token;
    store_.read(only_sequence(rows_[at]), rows_[at], token - start, out.first(static_cast<std::size_t>(count)));
    out = out.subspan(static_cast<std::size_t>(count));
    token += count;
    if (token == end) return;
    go_on();
  }
}

}  // namespace bert_hpc::prep
