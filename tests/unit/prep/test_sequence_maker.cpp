#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/prep/sequence_maker.hpp"

using namespace bert_hpc::prep;
using Ids = std::vector<std::int32_t>;

TEST_CASE("pairs are cut as Transformers' longest_first cuts them") {
  // From BertTokenizer(a, b, truncation=True, max_length=room + 3) of Transformers 5.23: tokens left of each text.
  const struct {
    std::int64_t first, second, room, kept_first, kept_second;
  } cases[] = {
      {3, 4, 10, 3, 4}, {10, 2, 8, 6, 2}, {2, 10, 8, 2, 6},  {10, 10, 8, 4, 4},
      {9, 8, 7, 4, 3},  {8, 9, 7, 3, 4},  {10, 10, 7, 3, 4}, {7, 1, 5, 4, 1},
  };
  for (const auto& c : cases) {
    const PairLengths kept = truncate_longest_first(c.first, c.second, c.room);
    INFO(c.first << " and " << c.second << " into " << c.room);
    CHECK(kept.first == c.kept_first);
    CHECK(kept.second == c.kept_second);
  }
}

TEST_CASE("sequences have their special tokens and never exceed max_tokens") {
  PrepConfig config;
  const auto tokenizer =
      config.tokenizer_kind().make({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"}, {}, "test");
  config.task.name = "classification";
  config.tokenizer.max_tokens = 6;
  Ids ids;
  SequenceMaker single(config, *tokenizer);
  auto made = single.make("a b", "", ids);
  CHECK(ids == Ids{2, 5, 6, 3});
  CHECK_FALSE(made.truncated);
  made = single.make("a b a b a", "", ids);
  CHECK(ids == Ids{2, 5, 6, 5, 6, 3});
  CHECK(made.truncated);

  config.source.text_pair = {"b"};
  SequenceMaker pair(config, *tokenizer);
  made = pair.make("a", "b", ids);
  CHECK(ids == Ids{2, 5, 3, 6, 3});
  CHECK(made.first == 3);
  made = pair.make("a a a", "b", ids);
  CHECK(ids == Ids{2, 5, 5, 3, 6, 3});
  CHECK(made.first == 4);
  CHECK(made.truncated);

  config.source.text_pair.clear();
  config.task.name = "masked_lm";
  SequenceMaker packed(config, *tokenizer);
  packed.make("a b a b a b a", "", ids);
  CHECK(ids == Ids{5, 6, 5, 6, 5, 6, 5});
}
