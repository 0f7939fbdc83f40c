// A matrix product that records the extents of each request and forwards it to another one.
#pragma once

#include <memory>
#include <set>

#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::test {

class RecordedProduct final : public ops::MatrixProduct {
 public:
  explicit RecordedProduct(std::unique_ptr<ops::MatrixProduct> inner) : inner_(std::move(inner)) {}

  /// Extents of all products so far, without duplicates.
  const std::set<ops::ProductExtents>& requested() const { return requested_; }

  std::string name() const override { return "recorded " + inner_->name(); }
  bool rows_are_independent() const override { return inner_->rows_are_independent(); }
  std::int64_t reserve(const ops::ProductExtents& largest) override { return inner_->reserve(largest); }

  void forward(core::ConstMatrix x, core::Tensor<const float> w, const ops::Epilogue& epilogue,
               core::Matrix y) override {
    record(x.rows, w);
    inner_->forward(x, w, epilogue, y);
  }
  void backward_input(core::ConstMatrix d_y, core::Tensor<const float> w, core::Matrix d_x,
                      const ops::InputEpilogue& epilogue) override {
    record(d_y.rows, w);
    inner_->backward_input(d_y, w, d_x, epilogue);
  }
  void backward_weight(core::ConstMatrix d_y, core::ConstMatrix x, core::Matrix d_w, float* d_bias,
                       ops::Write write) override {
    record(x.rows, d_w);
    inner_->backward_weight(d_y, x, d_w, d_bias, write);
  }

 private:
  void record(std::int64_t rows, const core::ConstMatrix& w) { requested_.insert({rows, w.columns, w.rows}); }

  std::unique_ptr<ops::MatrixProduct> inner_;
  std::set<ops::ProductExtents> requested_;
};

}  // namespace bert_hpc::test
