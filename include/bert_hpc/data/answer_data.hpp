// What shards with answers (tasks::Labels::spans) hold besides tokens: where in each sequence its context lies, and,
// where predictions are made, the characters of each token and the texts of each question (data/row_texts.hpp).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/data/row_texts.hpp"

namespace bert_hpc::data {

struct QuestionTexts {
  std::string id, context;
  /// All right answers, empty if there is none; nullopt where they are not known.
  std::optional<std::vector<std::string>> answers;
};
/// `answers` as the shard holds them: "" if they are not known.
std::string answers_to_json(const std::optional<std::vector<std::string>>& answers);

/// Reads the windows of a data set, one after the other. Throws Error(data) if the shards lack what predictions are
/// made of, or are damaged.
class AnswerReader {
 public:
  /// `reader` must outlive it. `hdf5` is held during HDF5 calls.
  AnswerReader(const ShardReader& reader, std::mutex& hdf5);
  ~AnswerReader();
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  /// The next sample, from 0 on. False after the last one.
  bool next();

  bool starts_question() const { return rows_.starts_row(); }
  const QuestionTexts& question() const { return question_; }
  /// (length of the sample, 2): characters (code points) [begin, end) of the context that each token is made of;
  /// (−1, −1) outside the context.
  std::span<const std::int32_t> characters() const { return characters_; }

 private:
  void read_question();

  const ShardReader& reader_;
  std::mutex& hdf5_;
  RowTextsReader rows_;
  std::optional<io::Dataset> character_data_;
  std::string path_;        // of the shard that they are of
  std::int64_t token_ = 0;  // where the next sample begins in it
  QuestionTexts question_;
  std::vector<std::int32_t> characters_;
};

}  // namespace bert_hpc::data
