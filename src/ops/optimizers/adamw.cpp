// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) as torch.optim.AdamW computes it; biases
// and layer norms have no weight decay.
#include "adamw_element.hpp"
#include "postponed_lines.hpp"
#include "update_kernels.hpp"

namespace bert_hpc::ops {
namespace optimizers {

class Adamw final : public UpdateRule {
 public:
  explicit Adamw(const MomentSettings& settings) : settings_(settings) {}

  void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last) const override {
    updates::update("bert_hpc::ops::adamw", step, ranges, first, last, AdamwElement(settings_, step, true),
                    AdamwElement(settings_, step, false));
  }
  void update_on_host(const UpdateStep& step, const HostRange& range) const override {
    updates::update_on_host("bert_hpc::ops::adamw_on_host", range, AdamwElement(settings_, step, range.decay));
  }
  std::unique_ptr<PostponedSteps> postpone(std::span<const UpdateRange> ranges) const override {
    return postponed_lines<AdamwElement>("bert_hpc::ops::postponed_adamw", ranges, settings_);
  }

 private:
  MomentSettings settings_;
};

}  // namespace optimizers

OptimizerKind adamw() {
  return optimizers::moment_kind<optimizers::Adamw>("adamw", 1e-8);
}

}  // namespace bert_hpc::ops
