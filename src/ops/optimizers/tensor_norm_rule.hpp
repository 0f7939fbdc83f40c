// A rule whose update needs sums over whole tensors, made from an element (update_element.hpp) with
//   float first_pass(w, g, states &…) const;      // brings the states up to date; squares of what it gives are summed
//   static float scale_of(const TensorSums&);     // then the element's tensor_scale
//   static constexpr Labels labels;
#pragma once

#include "moments.hpp"
#include "update_kernels.hpp"

namespace bert_hpc::ops::optimizers {

/// Names of the kernels.
struct Labels {
  const char *first_pass, *first_pass_on_host, *update, *update_on_host;
};

template <class Element>
class TensorNormRule final : public UpdateRule {
 public:
  explicit TensorNormRule(const MomentSettings& settings) : settings_(settings) {}

  bool needs_tensor_norms() const override { return true; }
  void begin(const UpdateStep& step, const UpdateRanges& ranges, double* sums) const override {
    updates::first_pass(Element::labels.first_pass, ranges, Element(settings_, step, true),
                        Element(settings_, step, false), sums);
  }
  void begin_on_host(const UpdateStep& step, const HostRange& range, double* sums) const override {
    updates::first_pass_on_host(Element::labels.first_pass_on_host, range, Element(settings_, step, range.decay), sums);
  }
  float tensor_scale(const TensorSums& sums) const override { return Element::scale_of(sums); }
  void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last) const override {
    updates::update(Element::labels.update, step, ranges, first, last, Element(settings_, step, true),
                    Element(settings_, step, false));
  }
  void update_on_host(const UpdateStep& step, const HostRange& range) const override {
    Element element(settings_, step, range.decay);
    element.tensor_scale = step.tensor_scales[range.tensor];
    updates::update_on_host(Element::labels.update_on_host, range, element);
  }

 private:
  MomentSettings settings_;
};

}  // namespace bert_hpc::ops::optimizers
