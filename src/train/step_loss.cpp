#include "bert_hpc/train/step_loss.hpp"

#include <numeric>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {
namespace {

void copy_rows(const float* from, std::int64_t elements, float* to) {
  if (elements > 0) core::copy_on_device(from, to, static_cast<std::size_t>(elements) * sizeof(float));
}

}  // namespace

StepLoss::StepLoss(const StepLossSettings& settings, comm::Communicator& replicas)
    : settings_(settings),
      replicas_(replicas),
      gathered_(block() * replicas.size()),
      row_losses_(settings.rows),
      d_logits_(settings.rows * settings.outputs),
      rows_(static_cast<std::size_t>(replicas.size())) {
  if (replicas.size() == 1) return;
  logits_ = core::Buffer<float>(settings.rows * replicas.size() * settings.outputs);
  values_ = core::Buffer<float>(settings.rows * replicas.size() * settings.columns);
}

std::int64_t StepLoss::bytes(const StepLossSettings& settings, int replicas) {
  const std::int64_t all = settings.rows * (settings.outputs + settings.columns) * replicas;
  const std::int64_t own = settings.rows * (settings.outputs + 1);
  return static_cast<std::int64_t>(sizeof(float)) * ((replicas > 1 ? 2 : 1) * all + own);
}

void StepLoss::begin(const core::BatchPlan& plan) {
  core::require(plan.replicas() == replicas_.size(), "step loss: the plan is of other replicas");
  for (int r = 0; r < plan.replicas(); ++r) {
    rows_[static_cast<std::size_t>(r)] = static_cast<std::int64_t>(plan.replica(r).size());
    core::require(rows_[static_cast<std::size_t>(r)] <= settings_.rows, "step loss: more rows than planned");
  }
  own_rows_ = rows_[static_cast<std::size_t>(replicas_.rank())];
  added_ = 0;
  parts_.clear();
}

void StepLoss::add(const Part& part, const float* values) {
  const core::Matrix logits = part.stage->logits(part.slot);
  core::require(part.begin + part.rows <= own_rows_ && logits.columns == settings_.outputs &&
                    logits.stride == logits.columns && logits.type == core::DataType::fp32,
                "step loss: other outputs than planned");
  float* const own = own_block();
  copy_rows(static_cast<const float*>(logits.data), part.rows * settings_.outputs,
            own + part.begin * settings_.outputs);
  copy_rows(values, part.rows * settings_.columns,
            own + settings_.rows * settings_.outputs + part.begin * settings_.columns);
  parts_.push_back(part);
  added_ += part.rows;
}

void StepLoss::finish(float scale) {
  core::require(is_complete(), "step loss: outputs are missing");
  const std::int64_t all = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  const float* logits = gathered_.data();
  const float* values = logits + settings_.rows * settings_.outputs;
  std::int64_t first = 0;  // of this replica's rows, among all
  if (replicas_.size() > 1) {
    const auto elements = static_cast<std::size_t>(block() * replicas_.size());
    replicas_.start_all_gather({gathered_.data(), elements})->wait();
    std::int64_t begin = 0;
    for (int r = 0; r < replicas_.size(); ++r) {
      const std::int64_t rows = rows_[static_cast<std::size_t>(r)];
      const float* const from = gathered_.data() + block() * r;
      if (r == replicas_.rank()) first = begin;
      copy_rows(from, rows * settings_.outputs, logits_.data() + begin * settings_.outputs);
      copy_rows(from + settings_.rows * settings_.outputs, rows * settings_.columns,
                values_.data() + begin * settings_.columns);
      begin += rows;
    }
    logits = logits_.data();
    values = values_.data();
  }
  if (own_rows_ == 0) return;
  settings_.loss({.logits = {logits, all, settings_.outputs}, .values = values}, first, scale, row_losses_.data(),
                 {d_logits_.data(), own_rows_, settings_.outputs});
  for (const Part& part : parts_) {
    part.stage->set_loss(row_losses_.data() + part.begin, d_logits_.data() + part.begin * settings_.outputs, part.slot);
  }
}

}  // namespace bert_hpc::train
