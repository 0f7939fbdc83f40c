#include "bert_hpc/data/answer_data.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bounded_json.hpp"

namespace bert_hpc::data {
namespace {

constexpr std::int64_t longest_text = std::int64_t{64} << 20;  // bytes of a context, as readers of text take it
constexpr std::size_t texts_per_question = 3;

}  // namespace

AnswerReader::AnswerReader(const ShardReader& reader, std::mutex& hdf5) : reader_(reader), hdf5_(hdf5) {
  core::require(std::ssize(reader.source_index()) == reader.samples(), "rows of the source are known");
}

void AnswerReader::fail(const std::string& what) const {
  throw core::Error(core::ExitCode::data, path_ + ": " + what);
}

void AnswerReader::open(const std::string& file) {
  character_data_.reset();
  text_data_.reset();
  offset_data_.reset();
  path_ = file;
  file_ = io::Hdf5File::open_read(file, core::ExitCode::data);
  character_data_ = file_->dataset(shard_dataset::token_characters);
  text_data_ = file_->dataset(shard_dataset::texts);
  offset_data_ = file_->dataset(shard_dataset::text_offsets);
  sequence_ = token_ = row_ = 0;
  row_count_ = (offset_data_->info().extents.at(0) - 1) / static_cast<std::int64_t>(texts_per_question);
}

bool AnswerReader::next() {
  if (sample_ + 1 == reader_.samples()) return false;
  ++sample_;
  const SamplePlace place = reader_.place(sample_);
  const std::lock_guard lock(hdf5_);
  if (place.file != path_) open(place.file);
  const auto at = static_cast<std::size_t>(sample_);
  const std::span<const std::int64_t> rows = reader_.source_index();
  starts_question_ = place.sequence == 0 || rows[at] != rows[at - 1];
  if (starts_question_) read_question();
  const std::int64_t length = reader_.table().length(sample_);
  characters_.resize(static_cast<std::size_t>(2 * length));
  character_data_->read_rows(token_, characters_);
  token_ += length;
  return true;
}

void AnswerReader::read_question() {
  if (row_ == row_count_) fail("'/texts' hold fewer questions than there are in '/source_index'.");
  std::array<std::int64_t, texts_per_question + 1> offsets{};
  offset_data_->read_rows(row_ * static_cast<std::int64_t>(texts_per_question), offsets);
  std::string answers;
  const std::array texts = {&question_.id, &question_.context, &answers};
  const std::int64_t bytes = text_data_->info().extents.at(0);
  std::vector<std::uint8_t> read;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int64_t begin = offsets[i], end = offsets[i + 1];
    if (begin < 0 || begin > end || end > bytes || end - begin > longest_text) {
      fail("'/text_offsets' are damaged at question " + std::to_string(row_) + ".");
    }
    read.resize(static_cast<std::size_t>(end - begin));
    if (!read.empty()) text_data_->read_rows(begin, read);
    texts[i]->assign(read.begin(), read.end());
  }
  ++row_;
  question_.answers.reset();
  if (answers.empty()) return;
  const nlohmann::json json = parse_bounded_json(answers);
  bool strings = json.is_array();
  for (const nlohmann::json& answer : json) strings = strings && answer.is_string();
  if (!strings) fail("the answers of question " + std::to_string(row_ - 1) + " are no JSON array of strings.");
  question_.answers = json.get<std::vector<std::string>>();
}

std::string answers_to_json(const std::optional<std::vector<std::string>>& answers) {
  using nlohmann::json;
  return answers ? json(*answers).dump(-1, ' ', false, json::error_handler_t::replace) : std::string();
}

}  // namespace bert_hpc::data
