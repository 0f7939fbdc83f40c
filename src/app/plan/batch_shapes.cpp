#include "app/plan/batch_shapes.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "app/engine/logit_positions.hpp"

namespace bert_hpc::app {
namespace {

/// Returns the real tokens.
double add(std::span<const core::PlannedSample> samples, layers::BatchShape& shape) {
  double real = 0;
  for (const core::PlannedSample& sample : samples) {
    const double rows = sample.rows();
    real += sample.length;
    shape.tokens += rows;
    shape.squared_lengths += rows * rows;
  }
  return real;
}

}  // namespace

layers::BatchShape shape_of(std::span<const core::PlannedSample> samples, const config::Config& input) {
  layers::BatchShape shape;
  const double real = add(samples, shape);
  shape.logit_positions = expected_targets(input, static_cast<double>(samples.size()), real, shape.tokens);
  return shape;
}

layers::BatchShape shape_of(const data::ShardReader& reader, const config::Config& input,
                            const data::BatchPlanOptions& window) {
  layers::BatchShape shape;
  double real = 0;
  const std::span<const std::int32_t> lengths = reader.table().lengths();
  if (window.padding.pads()) {
    std::vector<std::int64_t> samples;
    for (std::size_t begin = 0; begin < lengths.size(); begin += samples.size()) {
      samples.resize(std::min(lengths.size() - begin, static_cast<std::size_t>(window.global_batch)));
      std::iota(samples.begin(), samples.end(), static_cast<std::int64_t>(begin));
      real += add(data::plan_batch(samples, lengths.subspan(begin, samples.size()), window).samples, shape);
    }
  } else {
    for (const double length : lengths) {
      shape.tokens += length;
      shape.squared_lengths += length * length;
    }
    real = shape.tokens;
  }
  shape.logit_positions = expected_targets(input, static_cast<double>(reader.samples()), real, shape.tokens);
  return shape;
}

}  // namespace bert_hpc::app
