// Words of sequences as shards hold them.
#include "bert_hpc/data/words.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/row_texts.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

using Integers = std::vector<std::int32_t>;

data::ShardInfo words_info(bool labelled = true) {
  data::ShardInfo info;
  info.task = tasks::find("token_classification");
  info.vocabulary_hash = "cafe";
  info.vocabulary_size = 10;
  info.label_names = labelled ? std::vector<std::string>{"B-X", "O"} : std::vector<std::string>{};
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  info.labelled = labelled;
  info.has_texts = true;
  return info;
}

/// One row of two windows, and one without words.
void write(const std::string& path, const Integers& first, const Integers& classes, bool labelled = true) {
  data::ShardWriter writer(path, words_info(labelled), false);
  const Integers ids = {2, 5, 6, 7, 3}, second = {2, 4}, other = {1};
  const std::vector<std::string> texts =
                                     {"a\x1f"
                                      "b\x1f"
                                      "c\x1f"},
                                 none = {""};
  writer.add(ids, {}, {.words = classes}, 0, {.words = first, .starts_row = true, .texts = texts});
  writer.add(ids, {}, {.words = other}, 0, {.words = second});
  writer.add(ids, {}, {}, 4, {.starts_row = true, .texts = none});
  writer.finish();
}

data::ShardReaderOptions options_of(const std::vector<std::string>& paths, bool labels = true) {
  data::ShardReaderOptions options;
  options.paths = paths;
  options.limits.task = tasks::find("token_classification");
  options.limits.labels = labels;
  options.source_index = true;
  return options;
}

}  // namespace

TEST_CASE("words, their classes and the texts of rows come back over several shards") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", {1, 2, 2, 4}, {0, 1});
  write(directory / "b.h5", {1, 2, 3, 4}, {1, 1});
  const data::ShardReader reader(options_of({directory / "a.h5", directory / "b.h5"}));
  CHECK(reader.words().offsets == std::vector<std::int64_t>{0, 2, 3, 3, 5, 6, 6});
  CHECK(reader.words().tokens == Integers{1, 2, 2, 4, 2, 4, 1, 2, 3, 4, 2, 4});
  CHECK(Integers(reader.word_classes().begin(), reader.word_classes().end()) == Integers{0, 1, 1, 1, 1, 1});
  std::mutex hdf5;
  data::RowTextsReader rows(reader, hdf5);
  std::vector<bool> starts;
  std::vector<std::string> texts;
  while (rows.next()) {
    starts.push_back(rows.starts_row());
    texts.push_back(rows.texts().front());
  }
  CHECK(starts == std::vector<bool>{true, false, true, true, false, true});
  CHECK(texts[1] ==
        "a\x1f"
        "b\x1f"
        "c\x1f");
  CHECK(texts[2].empty());
}

TEST_CASE("words without labels can be predicted alone") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", {1, 2, 2, 4}, {}, false);
  const data::ShardReader reader(options_of({directory / "a.h5"}, false));
  CHECK(reader.words().count() == 3);
  CHECK(reader.word_classes().empty());
  CHECK_THROWS_WITH(data::ShardReader(options_of({directory / "a.h5"})), ContainsSubstring("no dataset '/labels'"));
}

TEST_CASE("words and classes that cannot be are refused") {
  const test::ScratchDirectory directory;
  const auto refusal = [&](const Integers& words, const Integers& classes, const std::string& what) {
    write(directory / "bad.h5", words, classes);
    CHECK_THROWS_WITH(data::ShardReader(options_of({directory / "bad.h5"})), ContainsSubstring(what));
  };
  refusal({1, 2, 2, 6}, {0, 1}, "sequence 0 (source row 0): word 1 is made of tokens 2 to 6");
  refusal({2, 4, 1, 2}, {0, 1}, "word 1 is made of tokens 1 to 2");
  refusal({1, 0, 2, 4}, {0, 1}, "word 0 is made of tokens 1 to 0");
  refusal({1, 1, 1, 2}, {0, 1}, "word 1 is made of tokens 1 to 2");  // 1 stands for word 0
  refusal({-1, 1, 2, 4}, {0, 1}, "word 0 is made of tokens -1 to 1");
  refusal({1, 2, 2, 4}, {0, 2}, "sequence 0 (source row 0): word 1 has label 2; labels must lie between 0 and 1");
  refusal({1, 2, 2, 4}, {0}, "'/labels' has shape");
}

TEST_CASE("tokens within a word have the inner class of its first one") {
  CHECK(data::classes_inside({"B-X", "I-X", "O", "B-Y", "NOUN"}) == Integers{1, 1, 2, 3, 4});
}

TEST_CASE("planned sequences have a word for each token between the first and the last") {
  const data::Words words = data::planned_words(Integers{4, 1, 3});
  CHECK(words.offsets == std::vector<std::int64_t>{0, 2, 2, 3});
  CHECK(words.tokens == Integers{1, 2, 2, 3, 1, 2});
}
