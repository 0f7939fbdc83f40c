// What surrounds every kernel launch. Only kernel files include this header, because it needs Kokkos.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops::kernel {

/// Bytes of `count` elements of each of these types.
template <class... Elements>
constexpr double bytes_of(std::int64_t count) {
  return static_cast<double>(count) * static_cast<double>((sizeof(Elements) + ...));
}

/// A kernel's name, a string literal, and what one launch of it does, where the caller knows.
struct Label {
  // NOLINTNEXTLINE(google-explicit-constructor): a name alone is a label
  Label(const char* kernel) : name(kernel) {}
  /// `bytes` that it moves at least.
  Label(const char* kernel, double bytes) : name(kernel), work{.bytes = bytes} {}
  Label(const char* kernel, const core::CallWork& known) : name(kernel), work(known) {}

  const char* name;
  core::CallWork work;
};

/// RAII: observers see the launch in its scope.
class LaunchScope {
 public:
  explicit LaunchScope(const Label& label)
      : name_(label.name), call_(core::DeviceCall::kernel, label.name, label.work) {}

  /// After the launch: throws Error(internal) if CUDA rejected it, so that the error names this kernel.
  void check() const {
#if defined(__CUDACC__)
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
      throw core::Error(core::ExitCode::internal,
                        std::string("CUDA refused to start ") + name_ + ": " + cudaGetErrorString(status) + ".");
    }
#endif
  }

 private:
  [[maybe_unused]] const char* name_;
  core::CallScope call_;
};

}  // namespace bert_hpc::ops::kernel
