// The input of one pass through the model: token rows, their sequences, and the keys of dropout. With data.padding =
// "longest" or "max", the rows of a sequence end in padding, which is computed like real tokens, but no real token and
// no head reads it. All pointers but LengthOrder::live refer to memory where kernels run; nothing here owns memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <tuple>

namespace bert_hpc::core {

/// A set of token rows, grouped by sequence in order: either all rows of a micro-batch or a selection (the rows that a
/// head reads). Each row keeps its position in its sequence.
struct TokenRows {
  std::int64_t count = 0;                  ///< rows
  const std::int32_t* offsets = nullptr;   ///< (sequences + 1): rows of sequence b are [offsets[b], offsets[b + 1])
  const std::int32_t* sequence = nullptr;  ///< (count): sequence of each row
  const std::int32_t* position = nullptr;  ///< (count): position of each row in its sequence, from 0, ascending
  /// Σ over sequences of rows times all tokens of the sequence: the pairs of attention. NaN: unknown; for profiles
  /// only.
  double pairs = std::numeric_limits<double>::quiet_NaN();
};

/// One dropout site of one pass. The decision for an element is a pure function of (key, site, sample, row position,
/// column); see ops/dropout.hpp.
struct Dropout {
  float probability = 0.0f;              ///< 0 disables the site
  std::uint32_t key0 = 0, key1 = 0;      ///< from dropout_key(seed, step)
  std::uint32_t site = 0;                ///< number of the dropout site in the model, below 2^16
  const std::int64_t* sample = nullptr;  ///< (sequences): index of each sequence's sample in its data set
  std::int64_t first_column = 0;         ///< of the whole rows, where a matrix has some of their columns
};

/// Token ids sorted by id, so that the gradient of an embedding can be summed per id, in token order, without atomics.
struct SortedIds {
  std::int64_t unique = 0;                 ///< distinct ids
  const std::int32_t* ids = nullptr;       ///< (unique), ascending
  const std::int32_t* segments = nullptr;  ///< (unique + 1): tokens of ids[u] are order[segments[u] … segments[u+1])
  const std::int32_t* order = nullptr;     ///< (tokens): row numbers, ascending within a segment
};

/// The sequences by length, the longest first; equally long ones in the order of the batch. At each step of a
/// recurrence, the sequences that have not ended are the first ones.
struct LengthOrder {
  const std::int32_t* first = nullptr;   ///< (sequences): row of each one's first token
  const std::int32_t* length = nullptr;  ///< (sequences): tokens of each, without padding
  const std::int32_t* live = nullptr;    ///< (steps), in the host's memory: number of sequences longer than t at step t
  std::int64_t steps = 0;                ///< tokens of the longest one
  std::int64_t tokens = 0;               ///< of all, without padding
};

// Types of targets. `data` is null if the batch has none of the type; elements() is the size of the array.

/// Classes of the rows that the head reads: labels, or token ids.
struct ClassTargets {
  const std::int32_t* data = nullptr;  ///< (rows, or sequences)
  bool of_sequences = false;           ///< one for each sequence, whichever rows the head reads
  std::int64_t elements(std::int64_t rows, std::int64_t sequences) const { return of_sequences ? sequences : rows; }
};

/// Numbers of the rows that the head reads, or 1 for each label name in a row's set.
struct ValueTargets {
  const float* data = nullptr;  ///< (rows, columns); NaN: unknown, of numbers in several columns
  std::int64_t columns = 1;
  bool bounded = false;    ///< numbers are from 0 to 1, for the sigmoids of outputs
  std::int64_t known = 0;  ///< number of known elements in several columns; 0: the loss is one of rows
  std::int64_t elements(std::int64_t rows, std::int64_t) const { return rows * columns; }
};

/// Positions of the first and the last token of each sequence's answer. The head reads all tokens.
struct SpanTargets {
  const std::int32_t* data = nullptr;  ///< (sequences, 2)
  static std::int64_t elements(std::int64_t, std::int64_t sequences) { return 2 * sequences; }
};

/// Sequences [begin, end) of each group that has one loss: the candidates of a query, beside ValueTargets, or the texts
/// of a row, beside TextTargets.
struct ListTargets {
  const std::int32_t* data = nullptr;  ///< (count, 2)
  std::int64_t count = 0;
  std::int64_t elements(std::int64_t, std::int64_t) const { return 2 * count; }
};

/// Texts of rows, which are neighbours: the index of each in its row, 0 for the anchor and 1 for the positive; the
/// row's score, 0 if it has none; and 48 bits of a hash of the text's tokens, as two whole numbers below 2^24.
struct TextTargets {
  const float* data = nullptr;  ///< (sequences, 4)
  static std::int64_t elements(std::int64_t, std::int64_t sequences) { return columns * sequences; }
  static constexpr std::int64_t columns = 4;
};

/// Some of the rows that a head of two parts reads.
struct TargetPart {
  TokenRows rows;
  const std::int32_t* index = nullptr;  ///< (rows.count): their numbers among the rows that the head reads
};

/// The rows that a head reads and its targets there, by type. A batch has the types that the task's loss reads, and
/// none if targets are unknown.
struct Targets {
  TokenRows rows;                       ///< a row for each prediction: first tokens, masked tokens, …
  const std::int32_t* index = nullptr;  ///< (rows.count): their row numbers among all tokens
  /// Parts of the rows for a head of tokens and sequences: masked tokens, and the first token of each sequence.
  /// Classes, row losses and predictions have the order of the parts: those of the masked tokens, then those of the
  /// sequences.
  TargetPart masked{}, first{};
  std::tuple<ClassTargets, ValueTargets, SpanTargets, ListTargets, TextTargets> list{};

  bool has_parts() const { return first.rows.count > 0; }

  template <class T>
  T& get() {
    return std::get<T>(list);
  }
  template <class T>
  const T& get() const {
    return std::get<T>(list);
  }
};

/// Sequence of a row loss: in host memory.
inline std::int32_t sequence_of_loss(const Targets& targets, std::size_t row) {
  if (!targets.has_parts()) return targets.rows.sequence[row];
  const auto masked = static_cast<std::size_t>(targets.masked.rows.count);
  return row < masked ? targets.masked.rows.sequence[row] : targets.first.rows.sequence[row - masked];
}

/// A micro-batch in device memory.
struct MicroBatch {
  std::int64_t sequences = 0;
  std::int64_t max_length = 0;                   ///< longest sequence, tokens, padding included
  TokenRows tokens;                              ///< every token row, padding included
  const std::int32_t* lengths = nullptr;         ///< (sequences): real tokens of each; null: all are real
  const std::int32_t* input_ids = nullptr;       ///< (tokens)
  const std::int32_t* token_type_ids = nullptr;  ///< (tokens)
  const std::int64_t* sample = nullptr;          ///< (sequences)
  SortedIds sorted_ids;                          ///< of input_ids
  LengthOrder by_length;
  Targets targets;
};

/// What the loss of a micro-batch is a sum over: answers, queries, sequences with a class, known numbers of several
/// columns, masked tokens, or the rows that the head reads.
inline std::int64_t target_count(const MicroBatch& batch) {
  if (const auto& values = batch.targets.get<ValueTargets>(); values.known > 0) return values.known;
  if (const auto& lists = batch.targets.get<ListTargets>(); lists.data != nullptr) return lists.count;
  if (batch.targets.has_parts()) return batch.targets.masked.rows.count;
  const bool of_sequences =
      batch.targets.get<SpanTargets>().data != nullptr || batch.targets.get<ClassTargets>().of_sequences;
  return of_sequences ? batch.sequences : batch.targets.rows.count;
}

/// Calls visit(array, elements) for every array of the batch, null or not; `array` is a reference to the pointer.
template <class Visit>
void visit_arrays(MicroBatch& batch, Visit&& visit) {
  TargetPart &masked = batch.targets.masked, &first = batch.targets.first;
  for (TokenRows* rows : {&batch.tokens, &batch.targets.rows, &masked.rows, &first.rows}) {
    visit(rows->offsets, batch.sequences + 1);
    visit(rows->sequence, rows->count);
    visit(rows->position, rows->count);
  }
  visit(batch.lengths, batch.sequences);
  visit(batch.input_ids, batch.tokens.count);
  visit(batch.token_type_ids, batch.tokens.count);
  visit(batch.sample, batch.sequences);
  visit(batch.sorted_ids.ids, batch.sorted_ids.unique);
  visit(batch.sorted_ids.segments, batch.sorted_ids.unique + 1);
  visit(batch.sorted_ids.order, batch.tokens.count);
  visit(batch.by_length.first, batch.sequences);
  visit(batch.by_length.length, batch.sequences);
  visit(batch.targets.index, batch.targets.rows.count);
  visit(masked.index, masked.rows.count);
  visit(first.index, first.rows.count);
  const std::int64_t rows = batch.targets.rows.count;
  std::apply([&](auto&... targets) { (visit(targets.data, targets.elements(rows, batch.sequences)), ...); },
             batch.targets.list);
}

}  // namespace bert_hpc::core
