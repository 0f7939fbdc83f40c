// What plans expect of padding before there are micro-batches, and the costs of padded ones.
#include "app/engine/padding.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "app/plan/batch_shapes.hpp"

using namespace bert_hpc;
using Catch::Approx;
using data::Padding;
using data::PaddingOptions;

namespace {

data::ShardReader reader_of(const std::vector<std::int32_t>& lengths) {
  data::PlannedData planned;
  planned.info.task = &tasks::named("classification");
  planned.info.vocabulary_size = 100;
  planned.lengths = lengths;
  return data::ShardReader(planned);
}

}  // namespace

TEST_CASE("the mean of computed tokens follows the padding") {
  const std::vector<std::int32_t> lengths = {2, 4, 6, 8};
  CHECK(app::mean_rows(PaddingOptions{}, lengths, 2) == Approx(5));
  CHECK(app::mean_rows(PaddingOptions{.kind = Padding::max, .length = 16}, lengths, 2) == Approx(16));
  // Micro-batches {2, 6} and {4, 8}; all at once; one each.
  CHECK(app::mean_rows(PaddingOptions{.kind = Padding::longest}, lengths, 2) == Approx(7));
  CHECK(app::mean_rows(PaddingOptions{.kind = Padding::longest}, lengths, 100) == Approx(8));
  CHECK(app::mean_rows(PaddingOptions{.kind = Padding::longest}, lengths, 1) == Approx(5));
  CHECK(app::mean_rows(PaddingOptions{.kind = Padding::longest, .sorts = true}, lengths, 2) == Approx(5));
}

TEST_CASE("sequences are padded to what model and shards allow, sorted where the order is") {
  config::Config input;
  model::ModelConfig model;
  model.max_position_embeddings = 64;
  const data::ShardReader reader = reader_of({3, 5});
  CHECK(app::padding_options(input, model, reader).kind == Padding::none);
  input.data.padding = "longest";
  CHECK(app::padding_options(input, model, reader).rows(5) == 5);
  input.data.padding = "max";
  input.data.order = "by_length";
  const PaddingOptions padding = app::padding_options(input, model, reader);
  CHECK(padding.rows(5) == 64);
  CHECK(padding.sorts);
  model.max_position_embeddings = 4;  // of shards that contradict their attributes: no sequence is cut
  CHECK(app::padding_options(input, model, reader).rows(5) == 5);
  CHECK(data::max_tokens_from_json(R"({"max_tokens": 48})", "a.h5") == 48);
  CHECK(data::max_tokens_from_json("{}", "a.h5") == 0);
  CHECK_THROWS_AS(data::max_tokens_from_json(R"({"max_tokens": "many"})", "a.h5"), core::Error);
}

TEST_CASE("the costs of an evaluation count its padding, window by window") {
  config::Config input;
  input.task.name = "question_answering";  // the head reads all computed tokens
  const data::ShardReader reader = reader_of({2, 4, 6, 3, 5});
  data::BatchPlanOptions window{.global_batch = 3, .hidden = 8, .micro_tokens = 12};
  const layers::BatchShape real = app::shape_of(reader, input, window);
  CHECK(real.tokens == 20);
  CHECK(real.squared_lengths == 4 + 16 + 36 + 9 + 25);
  window.padding = {.kind = Padding::longest};
  // {2, 4}, {6}; {3, 5}: 2·4 + 6 + 2·5.
  const layers::BatchShape padded = app::shape_of(reader, input, window);
  CHECK(padded.tokens == 24);
  CHECK(padded.squared_lengths == 2 * 16 + 36 + 2 * 25);
  CHECK(padded.logit_positions == 24);
  input.task.name = "classification";
  CHECK(app::shape_of(reader, input, window).logit_positions == 5);
}
