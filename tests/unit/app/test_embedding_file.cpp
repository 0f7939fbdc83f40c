// Numbers of embeddings as files store them, and the cut of a data set into steps and files.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "app/engine/data_sets.hpp"
#include "app/engine/embedder.hpp"

using namespace bert_hpc;

TEST_CASE("A normalized row has length 1, and a row of zeros stays") {
  std::vector<float> row{3.0f, -4.0f, 12.0f}, zeros(3);
  app::normalize_row(row);
  CHECK(row == std::vector<float>{3.0f / 13.0f, -4.0f / 13.0f, 12.0f / 13.0f});
  app::normalize_row(zeros);
  CHECK(zeros == std::vector<float>(3));
}

TEST_CASE("A row of int8 has its largest magnitude as 127 and errs by half a scale") {
  std::vector<float> row;
  for (int i = 0; i < 200; ++i) row.push_back(std::sin(static_cast<float>(i)) * 0.3f);
  row.push_back(-0.5f);
  std::vector<std::int8_t> rounded(row.size());
  const float scale = app::round_to_int8(row, rounded);
  CHECK(rounded.back() == -127);
  CHECK(scale == Catch::Approx(0.5 / 127));
  for (std::size_t j = 0; j < row.size(); ++j) {
    CHECK(std::abs(static_cast<float>(rounded[j]) * scale - row[j]) <= 0.5001f * scale);
  }
  const std::vector<float> zeros(4);
  std::vector<std::int8_t> of_zeros(4, 1);
  CHECK(app::round_to_int8(zeros, of_zeros) == 0.0f);
  CHECK(of_zeros == std::vector<std::int8_t>(4));
}

TEST_CASE("Steps and files of embeddings have bounded sizes") {
  const auto cut = [](const char* type, bool of_tokens, std::int64_t hidden, double mean_length) {
    return app::embedding_cut({.type = type, .dimensions = hidden, .of_tokens = of_tokens}, hidden, mean_length);
  };
  const app::EmbeddingCut pooled = cut("fp32", false, 768, 150), tokens = cut("fp32", true, 768, 150),
                          bytes = cut("int8", false, 768, 150);
  CHECK(pooled.sequences_of_step == app::most_embedded_at_once);
  CHECK(pooled.steps_of_file == 21);  // 256 MiB / (4,096 · 768 · 4 bytes)
  CHECK(bytes.steps_of_file == 85);
  CHECK(tokens.sequences_of_step == 256);  // the least, although it is more than 64 MiB
  CHECK(tokens.steps_of_file == 2);
  CHECK(cut("fp32", true, 32, 10).sequences_of_step == app::most_embedded_at_once);
}
