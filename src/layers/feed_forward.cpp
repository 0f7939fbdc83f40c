#include "feed_forward.hpp"

namespace bert_hpc::layers {
namespace {

constexpr const char* output_name = "output.dense";
constexpr std::uint32_t site_in_block = 2;

}  // namespace

void FeedForward::declare(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
                          const TensorPlace& place) {
  const std::int64_t intermediate = settings.intermediate, wide = place.share(intermediate);
  const std::string name = settings.prefix + "intermediate.dense";
  const core::Shard here = place.rows(intermediate);
  specs.push_back({.name = name + ".weight", .shape = {wide, settings.hidden}, .decay = true, .shard = here});
  specs.push_back({.name = name + ".bias", .shape = {wide}, .decay = false, .shard = here});
  declare_output(settings, output_name, intermediate, specs, place);
}

FeedForward::FeedForward(const SublayerSettings& settings, const core::ParameterStore& parameters,
                         const TensorGroup& group)
    : ResidualSublayer(settings, parameters, group, output_name, site_in_block),
      wide_(group.place().share(settings.intermediate)),
      intermediate_(linear("intermediate.dense")) {}

Sublayer::Saved FeedForward::take_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                        std::int64_t) const {
  const std::int64_t rows = row_count(tokens, selection);
  Saved saved;
  saved.intermediate = workspace.take(rows, wide_, settings_.storage);
  saved.activated = workspace.take(rows, wide_, settings_.storage);
  take_output(workspace, rows, saved);
  return saved;
}

Sublayer::Kept FeedForward::take_kept(core::Workspace& workspace, std::int64_t tokens,
                                      const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection);
  Kept kept;
  take_product(workspace, rows, kept);
  kept.d_intermediate = workspace.take(rows, wide_, settings_.storage);
  if (settings_.fuses_row_sums) kept.intermediate_sums = workspace.take<float>(ops::gelu_sum_blocks(rows), wide_);
  return kept;
}

std::vector<LinearWeight> FeedForward::linear_weights(bool selects) const {
  return {intermediate_.weight(selects), output_.weight(selects)};
}

void FeedForward::forward(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x,
                          Saved& saved) const {
  const core::TokenRows& rows = rows_of(pass, selection);
  intermediate_.forward_gelu(engine, group_.gather(x, rows.count), saved.intermediate, saved.activated);
  finish_forward(engine, pass, rows, saved.activated, x, saved);
}

void FeedForward::backward_input(Engine& engine, const Pass& pass, const RowSelection* selection, const Saved& saved,
                                 Matrix d_y, Kept& kept, Matrix d_x, core::Workspace&) const {
  const core::TokenRows& rows = rows_of(pass, selection);
  const Matrix sum = group_.partial(d_x, rows.count);
  begin_backward(pass, rows, saved, d_y, kept, sum);
  const ConstMatrix d_product = group_.gather(kept.d_product, rows.count);
  if (settings_.fuses_row_sums) {
    output_.backward_input(engine, d_product, kept.d_intermediate, ops::Write::replace);
    ops::gelu_backward(saved.intermediate, kept.d_intermediate, kept.d_intermediate, kept.intermediate_sums);
  } else {
    output_.backward_input_gelu(engine, d_product, saved.intermediate, kept.d_intermediate);
  }
  intermediate_.backward_input(engine, kept.d_intermediate, sum, ops::Write::accumulate);
  group_.sum(sum, d_x);
}

void FeedForward::backward_weight(Engine& engine, const RowSelection*, const Saved& saved, const Kept& kept,
                                  ConstMatrix x) const {
  add_output_gradients(engine, saved, kept, saved.activated);
  const ConstMatrix input = group_.gather(x, saved.activated.rows);
  if (settings_.fuses_row_sums) {
    float* const vectors[] = {intermediate_.bias_gradient()};
    ops::add_partial_sums(kept.intermediate_sums, vectors, ops::Write::accumulate);
    return intermediate_.backward_weight_without_bias(engine, kept.d_intermediate, input);
  }
  intermediate_.backward_weight(engine, kept.d_intermediate, input);
}

}  // namespace bert_hpc::layers
