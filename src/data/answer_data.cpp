#include "bert_hpc/data/answer_data.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {

AnswerReader::AnswerReader(const ShardReader& reader, std::mutex& hdf5)
    : reader_(reader), hdf5_(hdf5), rows_(reader, hdf5) {}

AnswerReader::~AnswerReader() {
  const std::lock_guard lock(hdf5_);
  character_data_.reset();
}

bool AnswerReader::next() {
  if (!rows_.next()) return false;
  if (rows_.starts_row()) read_question();
  const std::lock_guard lock(hdf5_);
  if (rows_.file() != path_) {
    path_ = rows_.file();
    character_data_.reset();
    character_data_ = rows_.hdf5().dataset(shard_dataset::token_characters);
    token_ = 0;
  }
  const std::int64_t length = reader_.table().length(rows_.sample());
  characters_.resize(static_cast<std::size_t>(2 * length));
  character_data_->read_rows(token_, characters_);
  token_ += length;
  return true;
}

void AnswerReader::read_question() {
  const std::span<const std::string> texts = rows_.texts();
  question_ = {texts[0], texts[1], std::nullopt};
  const std::string& answers = texts[2];
  if (answers.empty()) return;
  const nlohmann::json json = core::parse_bounded_json(answers);
  bool strings = json.is_array();
  for (const nlohmann::json& answer : json) strings = strings && answer.is_string();
  if (!strings) {
    throw core::Error(core::ExitCode::data, rows_.file() + ": the answers of question " + std::to_string(rows_.row()) +
                                                " are no JSON array of strings.");
  }
  question_.answers = json.get<std::vector<std::string>>();
}

std::string answers_to_json(const std::optional<std::vector<std::string>>& answers) {
  using nlohmann::json;
  return answers ? core::json_text(json(*answers)) : std::string();
}

}  // namespace bert_hpc::data
