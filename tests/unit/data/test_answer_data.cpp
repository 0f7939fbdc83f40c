// Characters and texts of questions, as ShardWriter writes and AnswerReader reads them.
#include "bert_hpc/data/answer_data.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two questions, the first with two windows. `row`: the source row of the second.
void write(const std::string& path, std::int64_t row, const std::optional<std::vector<std::string>>& answers) {
  data::ShardInfo info;
  info.task = tasks::find("question_answering");
  info.vocabulary_hash = "cafe";
  info.vocabulary_size = 10;
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  info.has_texts = true;
  info.unanswerable = 1;
  data::ShardWriter writer(path, info, false);
  const std::string json = data::answers_to_json(answers);
  const std::vector<std::int32_t> ids = {2, 5, 6, 3}, first = {-1, -1, 0, 2, 2, 5, -1, -1},
                                  next = {-1, -1, 2, 5, 6, 7, -1, -1};
  const std::vector<std::string> one = {"q1", "Größe", json}, two = {"q2", "b", "[]"};
  writer.add(ids, {}, {.first = 1, .last = 2}, row - 1,
             {.context_begin = 1, .context_end = 3, .characters = first, .starts_row = true, .texts = one});
  writer.add(ids, {}, {}, row - 1, {.context_begin = 1, .context_end = 3, .characters = next});
  writer.add(ids, {}, {}, row,
             {.context_begin = 2, .context_end = 3, .characters = next, .starts_row = true, .texts = two});
  writer.finish();
}

data::ShardReader reader_of(const std::vector<std::string>& paths) {
  data::ShardReaderOptions options;
  options.paths = paths;
  options.limits.task = tasks::find("question_answering");
  options.source_index = true;
  return data::ShardReader(options);
}

}  // namespace

TEST_CASE("questions of several shards come back with their windows") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", 8, std::vector<std::string>{"x", "\"y\""});
  write(directory / "b.h5", 5, std::nullopt);  // begins with another question, though its row precedes
  const data::ShardReader shards = reader_of({directory / "a.h5", directory / "b.h5"});
  CHECK(shards.info().has_texts);
  CHECK(shards.info().unanswerable == 1);
  CHECK(shards.contexts()[4] == 2);
  std::mutex hdf5;
  data::AnswerReader answers(shards, hdf5);
  std::vector<bool> starts;
  std::vector<std::string> ids, contexts;
  std::vector<std::optional<std::vector<std::string>>> gold;
  while (answers.next()) {
    starts.push_back(answers.starts_question());
    CHECK(answers.characters().size() == 8);
    CHECK(answers.characters()[2] == (starts.size() % 3 == 1 ? 0 : 2));
    if (!starts.back()) continue;
    ids.push_back(answers.question().id);
    contexts.push_back(answers.question().context);
    gold.push_back(answers.question().answers);
  }
  CHECK(starts == std::vector<bool>{true, false, true, true, false, true});
  CHECK(ids == std::vector<std::string>{"q1", "q2", "q1", "q2"});
  CHECK(contexts == std::vector<std::string>{"Größe", "b", "Größe", "b"});
  CHECK(gold[0] == std::vector<std::string>{"x", "\"y\""});
  CHECK(gold[1] == std::vector<std::string>{});
  CHECK(gold[2] == std::nullopt);
}

TEST_CASE("damaged contexts and texts are refused") {
  const test::ScratchDirectory directory;
  const auto content = [] { return test::make_content(tasks::find("question_answering"), 3, 7); };
  auto outside = content();
  outside.contexts[3] = 1000;
  test::write_shard(directory / "outside.h5", outside);
  CHECK_THROWS_WITH(reader_of({directory / "outside.h5"}), ContainsSubstring("it must lie within the sequence's"));
  test::write_shard(directory / "without.h5", content(), {data::shard_dataset::context_tokens});
  CHECK_THROWS_WITH(reader_of({directory / "without.h5"}), ContainsSubstring("no dataset '/context_tokens'"));
  const auto bend = [&](std::vector<std::int64_t> offsets) {
    const auto shard = content();
    test::write_shard(directory / "bent.h5", shard, {}, [&](io::Hdf5File& file) {
      file.write(data::shard_dataset::token_characters, std::vector<std::int32_t>(2 * shard.input_ids.size()),
                 {std::ssize(shard.input_ids), 2});
      file.write(data::shard_dataset::texts, std::vector<std::uint8_t>{'a', 'b', 'c'});
      file.write(data::shard_dataset::text_offsets, offsets);
    });
    const data::ShardReader shards = reader_of({directory / "bent.h5"});
    std::mutex hdf5;
    data::AnswerReader answers(shards, hdf5);
    while (answers.next()) {
    }
  };
  CHECK_THROWS_WITH(bend({0, 1, 2, 4}), ContainsSubstring("'/text_offsets' are damaged at row 0"));
  CHECK_THROWS_WITH(bend({0, 2, 1, 3}), ContainsSubstring("'/text_offsets' are damaged at row 0"));
  CHECK_THROWS_WITH(bend({-1, 2, 2, 3}), ContainsSubstring("'/text_offsets' are damaged at row 0"));
  CHECK_THROWS_WITH(bend({0, 1, 3, 3}), ContainsSubstring("hold fewer rows"));
  CHECK_THROWS_WITH(bend({0, 1, 2, 3}), ContainsSubstring("the answers of question 0 are no JSON array"));
}
