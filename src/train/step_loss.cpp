#include "bert_hpc/train/step_loss.hpp"

#include <numeric>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {
namespace {

/// Copies elements of 4 bytes.
void copy_rows(const void* from, std::int64_t elements, float* to) {
  if (elements > 0) core::copy_on_device(from, to, static_cast<std::size_t>(elements) * sizeof(float));
}

}  // namespace

StepLoss::StepLoss(const StepLossSettings& settings, comm::Communicator& replicas)
    : settings_(settings),
      replicas_(replicas),
      gathered_(block() * replicas.size()),
      scratch_(settings.loss.scratch(settings.rows * replicas.size())),
      row_losses_(settings.rows),
      d_logits_(settings.rows * settings.outputs),
      rows_(static_cast<std::size_t>(replicas.size())) {
  if (replicas.size() == 1) return;
  logits_ = core::Buffer<float>(settings.rows * replicas.size() * settings.outputs);
  values_ = core::Buffer<float>(settings.rows * replicas.size() * settings.loss.columns);
}

std::int64_t StepLoss::bytes(const StepLossSettings& settings, int replicas) {
  const std::int64_t gathered = (replicas > 1 ? 2 : 1) * (settings.outputs + settings.loss.columns);
  const std::int64_t rows = settings.rows * replicas, all = rows * gathered + settings.loss.scratch(rows);
  const std::int64_t own = settings.rows * (settings.outputs + 1);
  return static_cast<std::int64_t>(sizeof(float)) * (all + own);
}

void StepLoss::begin(const LossStep& step) {
  step_ = step;
  const core::BatchPlan& plan = *step.plan;
  core::require(plan.replicas() == replicas_.size(), "step loss: the plan is of other replicas");
  for (int r = 0; r < plan.replicas(); ++r) {
    rows_[static_cast<std::size_t>(r)] = static_cast<std::int64_t>(plan.replica(r).size());
    core::require(rows_[static_cast<std::size_t>(r)] <= settings_.rows, "step loss: more rows than planned");
  }
  own_rows_ = rows_[static_cast<std::size_t>(replicas_.rank())];
  added_ = 0;
  computed_ = false;
  results_.clear();
  rows_of_results_.clear();
  if (own_rows_ == 0) compute();  // the other replicas wait
}

std::int64_t StepLoss::begin_of(int micro_batch) const {
  const core::BatchPlan& plan = *step_.plan;
  const auto replica = static_cast<std::size_t>(replicas_.rank());
  const int first = plan.replica_begin[replica], count = plan.replica_begin[replica + 1] - first;
  const int number = (static_cast<int>(step_.first) + micro_batch) % count;
  return plan.micro_batch(first + number).data() - plan.replica(replicas_.rank()).data();
}

StepLoss::Rows StepLoss::rows_of(const ForwardResult& result, const layers::StepContext& context) const {
  const core::Matrix logits = result.stage->logits(result.slot);
  const Rows rows{begin_of(result.micro_batch), context.batch.sequences};
  core::require(rows.begin + rows.count <= own_rows_ && logits.rows == rows.count &&
                    logits.columns == settings_.outputs && logits.stride == logits.columns &&
                    logits.type == core::DataType::fp32,
                "step loss: other outputs than planned");
  return rows;
}

bool StepLoss::collect(const ForwardResult& result, const layers::StepContext& context) {
  const Rows rows = rows_of(result, context);
  float* const own = own_block();
  const std::int64_t columns = settings_.loss.columns;
  copy_rows(static_cast<const float*>(result.stage->logits(result.slot).data), rows.count * settings_.outputs,
            own + rows.begin * settings_.outputs);
  copy_rows(settings_.loss.targets(context.batch.targets), rows.count * columns,
            own + settings_.rows * settings_.outputs + rows.begin * columns);
  added_ += rows.count;
  return added_ == own_rows_;
}

void StepLoss::look(const ForwardResult& result, const layers::StepContext& context) {
  if (collect(result, context)) compute();
}

std::span<const ForwardResult> StepLoss::add(const ForwardResult& result, const layers::StepContext& context) {
  if (computed_) {
    results_.assign(1, result);
    give(result, rows_of(result, context));
    return results_;
  }
  results_.push_back(result);
  rows_of_results_.push_back(rows_of(result, context));
  if (!collect(result, context)) return {};
  compute();
  for (std::size_t i = 0; i < results_.size(); ++i) give(results_[i], rows_of_results_[i]);
  return results_;
}

void StepLoss::compute() {
  const std::int64_t all = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  const std::int64_t columns = settings_.loss.columns;
  const float* logits = gathered_.data();
  const float* values = logits + settings_.rows * settings_.outputs;
  std::int64_t first = 0;  // of this replica's rows, among all
  computed_ = true;
  if (replicas_.size() > 1) {
    const auto elements = static_cast<std::size_t>(block() * replicas_.size());
    replicas_.start_all_gather({gathered_.data(), elements})->wait();
    std::int64_t begin = 0;
    for (int r = 0; r < replicas_.size(); ++r) {
      const std::int64_t rows = rows_[static_cast<std::size_t>(r)];
      const float* const from = gathered_.data() + block() * r;
      if (r == replicas_.rank()) first = begin;
      copy_rows(from, rows * settings_.outputs, logits_.data() + begin * settings_.outputs);
      copy_rows(from + settings_.rows * settings_.outputs, rows * columns, values_.data() + begin * columns);
      begin += rows;
    }
    logits = logits_.data();
    values = values_.data();
  }
  if (own_rows_ == 0) return;
  settings_.loss.compute({.logits = {logits, all, settings_.outputs}, .values = values, .scratch = scratch_.data()},
                         first, step_.scale, row_losses_.data(), {d_logits_.data(), own_rows_, settings_.outputs});
}

void StepLoss::give(const ForwardResult& result, const Rows& rows) {
  result.stage->set_loss(row_losses_.data() + rows.begin, d_logits_.data() + rows.begin * settings_.outputs,
                         result.slot);
}

std::unique_ptr<Loss> make_loss(const LossOptions& options, const std::optional<StepLossSettings>& step,
                                comm::Communicator& replicas) {
  if (step) return std::make_unique<StepLoss>(*step, replicas);
  return std::make_unique<MicroBatchLoss>(options);
}

}  // namespace bert_hpc::train
