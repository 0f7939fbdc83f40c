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
      config.tokenizer_kind().make({.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"}}, "test");
  config.task.name = "classification";
  config.tokenizer.max_tokens = 6;
  MadeRow row;
  SequenceMaker single(config, *tokenizer);
  single.make("a b", "", row);
  CHECK(row.ids == Ids{2, 5, 6, 3});
  CHECK_FALSE(row.truncated);
  single.make("a b a b a", "", row);
  CHECK(row.ids == Ids{2, 5, 6, 5, 6, 3});
  CHECK(row.truncated);
  CHECK(row.sequences.size() == 1);

  config.source.text_pair = {"b"};
  SequenceMaker pair(config, *tokenizer);
  pair.make("a", "b", row);
  CHECK(row.ids == Ids{2, 5, 3, 6, 3});
  CHECK(row.sequences.front().first == 3);
  pair.make("a a a", "b", row);
  CHECK(row.ids == Ids{2, 5, 5, 3, 6, 3});
  CHECK(row.sequences.front().first == 4);
  CHECK(row.truncated);

  config.source.text_pair.clear();
  config.task.name = "masked_lm";
  SequenceMaker packed(config, *tokenizer);
  packed.make("a b a b a b a", "", row);
  CHECK(row.ids == Ids{5, 6, 5, 6, 5, 6, 5});
}

TEST_CASE("texts that are compared are sequences of their own") {
  PrepConfig config;
  const auto tokenizer =
      config.tokenizer_kind().make({.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"}}, "test");
  config.task.name = "embedding";
  config.source.text_pair = {"b"};
  config.tokenizer.max_tokens = 4;
  MadeRow row;
  SequenceMaker maker(config, *tokenizer);
  maker.make("a", "b a", row);
  CHECK(row.ids == Ids{2, 5, 3, 2, 6, 5, 3});
  REQUIRE(row.sequences.size() == 2);
  CHECK(row.sequences[0].end == 3);
  CHECK_FALSE(row.truncated);
  maker.make("a b", "a b a", row);
  CHECK(row.ids == Ids{2, 5, 6, 3, 2, 5, 6, 3});
  CHECK(row.truncated);
  const std::vector<std::string_view> negatives{"b", "b b b"};
  maker.make("a", "a", row, negatives);
  CHECK(row.ids == Ids{2, 5, 3, 2, 5, 3, 2, 6, 3, 2, 6, 6, 3});
  CHECK(row.sequences.size() == 4);
  CHECK(row.truncated);
  std::vector<std::int32_t> ids{5}, pair_ids{6};
  std::vector<std::vector<std::int32_t>> more{{6, 5}};
  maker.make_of_ids(ids, pair_ids, row, more);
  CHECK(row.ids == Ids{2, 5, 3, 2, 6, 3, 2, 6, 5, 3});
  maker.make("a", "b", row);
  CHECK(row.sequences.size() == 2);
}

TEST_CASE("texts of causal language modelling end in a token and have no template") {
  PrepConfig config;
  const auto tokenizer =
      config.tokenizer_kind().make({.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"}}, "test");
  config.task.name = "causal_lm";
  config.tokenizer.max_tokens = 4;
  MadeRow row;
  SequenceMaker packed(config, *tokenizer);
  packed.make("a b a b a b a", "", row);
  CHECK(row.ids == Ids{5, 6, 5, 6, 5, 6, 5, 3});
  Ids ids = {5, 6}, none;
  packed.make_of_ids(ids, none, row);
  CHECK(row.ids == Ids{5, 6, 3});

  config.task.pack = false;
  SequenceMaker single(config, *tokenizer);
  single.make("a b a", "", row);
  CHECK(row.ids == Ids{5, 6, 5, 3});
  CHECK_FALSE(row.truncated);
  single.make("a b a b", "", row);  // what is cut has not ended
  CHECK(row.ids == Ids{5, 6, 5, 6});
  CHECK(row.truncated);
}

TEST_CASE("windows cover a text, begin a step apart, and end with it") {
  CHECK(windows_of(0, 4, 2) == std::vector<Window>{{0, 0}});
  CHECK(windows_of(4, 4, 2) == std::vector<Window>{{0, 4}});
  CHECK(windows_of(5, 4, 2) == std::vector<Window>{{0, 4}, {2, 5}});
  CHECK(windows_of(9, 4, 3) == std::vector<Window>{{0, 4}, {3, 7}, {6, 9}});
  CHECK(windows_of(9, 3, 3) == std::vector<Window>{{0, 3}, {3, 6}, {6, 9}});
  for (std::int64_t tokens = 1; tokens < 30; ++tokens) {
    for (std::int64_t room = 1; room < 10; ++room) {
      for (std::int64_t step = 1; step <= room; ++step) {
        const std::vector<Window> windows = windows_of(tokens, room, step);
        CHECK(windows.front().begin == 0);
        CHECK(windows.back().end == tokens);
        for (std::size_t i = 0; i < windows.size(); ++i) {
          CHECK(windows[i].end - windows[i].begin <= room);
          CHECK(windows[i].begin < windows[i].end);
          if (i + 1 < windows.size()) CHECK(windows[i + 1].begin <= windows[i].end);
          if (i + 1 < windows.size()) CHECK(windows[i].end < tokens);
        }
      }
    }
  }
}

TEST_CASE("with doc_stride a long text becomes windows, of a pair the second text") {
  PrepConfig config;
  const auto tokenizer = config.tokenizer_kind().make(
      {.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"}}, "test");
  config.task.name = "classification";
  config.tokenizer.max_tokens = 7;
  config.tokenizer.doc_stride = 1;
  const auto made = [&](const char* text, const char* text_pair) {
    SequenceMaker maker(config, *tokenizer);
    MadeRow row;
    maker.make(text, text_pair, row);
    std::vector<Ids> sequences;
    for (std::size_t i = 0; i < row.sequences.size(); ++i) {
      const auto ids = row.ids_of(i);
      sequences.emplace_back(ids.begin(), ids.end());
      if (config.has_pairs())
        sequences.back().insert(sequences.back().begin(), static_cast<std::int32_t>(row.sequences[i].first));
    }
    return std::pair(sequences, row.truncated);
  };
  using Made = std::pair<std::vector<Ids>, bool>;
  CHECK(made("a b", "") == Made{{{2, 5, 6, 3}}, false});
  // Room for 5 tokens, 1 of which is the last of the window before.
  CHECK(made("a b c d a b c d", "") == Made{{{2, 5, 6, 7, 8, 5, 3}, {2, 5, 6, 7, 8, 3}}, false});
  config.tokenizer.stride = "step";
  CHECK(made("a b c d a b c", "") ==
        Made{{{2, 5, 6, 7, 8, 5, 3}, {2, 6, 7, 8, 5, 6, 3}, {2, 7, 8, 5, 6, 7, 3}}, false});

  // The first text whole before each window: room for 3 tokens. The first value is the number of tokens of type 0.
  config.source.text_pair = {"b"};
  config.tokenizer.stride = "overlap";
  CHECK(made("d", "a b c a") == Made{{{3, 2, 8, 3, 5, 6, 7, 3}, {3, 2, 8, 3, 7, 5, 3}}, false});
  // A long first text leaves a window room for its overlap and a token.
  CHECK(made("d d d", "a b c") == Made{{{4, 2, 8, 8, 3, 5, 6, 3}, {4, 2, 8, 8, 3, 6, 7, 3}}, true});
  config.tokenizer.stride = "step";
  config.tokenizer.doc_stride = 2;
  CHECK(made("d d d", "a b c") == Made{{{4, 2, 8, 8, 3, 5, 6, 3}, {4, 2, 8, 8, 3, 7, 3}}, true});
}
