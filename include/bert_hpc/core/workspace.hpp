// Workspace: one bump arena for all temporary memory of a step. Planning runs the same requests once without memory to
// find the size, so the step loop allocates nothing and the reported size is exact.
#pragma once

#include <cstdint>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::core {

class Workspace {
 public:
  /// Starts in planning mode: requests return null tensors and only add up sizes.
  Workspace() = default;

  /// Allocates the size of the largest plan so far and leaves planning mode.
  void allocate() {
    memory_ = Buffer<unsigned char>(peak_);
    planning_ = false;
    used_ = 0;
  }

  bool planning() const { return planning_; }
  std::int64_t bytes() const { return peak_; }  ///< size of the arena, or the need so far while planning

  /// Uninitialised (rows, columns), aligned to 64 bytes, valid until a release() to an earlier mark.
  template <class T>
  Tensor<T> take(std::int64_t rows, std::int64_t columns) {
    const std::int64_t begin = (used_ + 63) / 64 * 64;
    used_ = begin + rows * columns * static_cast<std::int64_t>(sizeof(T));
    if (planning_) {
      if (used_ > peak_) peak_ = used_;
      return Tensor<T>(nullptr, rows, columns);
    }
    require(used_ <= peak_, "workspace: a step asked for more than was planned");
    return Tensor<T>(reinterpret_cast<T*>(memory_.data() + begin), rows, columns);
  }

  /// As above, with an element type known at run time.
  Matrix take(std::int64_t rows, std::int64_t columns, DataType type) {
    return with_type(type, [&]<class T>() -> Matrix { return take<T>(rows, columns); });
  }

  std::int64_t mark() const { return used_; }
  void release(std::int64_t mark) { used_ = mark; }

 private:
  Buffer<unsigned char> memory_;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
  bool planning_ = true;
};

/// Memory that is taken of a workspace in its scope is released at the end.
class ScratchScope {
 public:
  explicit ScratchScope(Workspace& scratch) : scratch_(scratch), mark_(scratch.mark()) {}
  ~ScratchScope() { scratch_.release(mark_); }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  Workspace& scratch_;
  std::int64_t mark_;
};

}  // namespace bert_hpc::core
