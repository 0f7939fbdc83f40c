// Attention on NVIDIA's tensor cores: the choice between these kernels and the portable ones, and the launches.
#include "fused_attention.hpp"

#include <algorithm>

#include "../../core/cuda/check_cuda.hpp"
#include "attention_backward_sequence.hpp"
#include "attention_bias_gradient.hpp"
#include "attention_choice.hpp"
#include "attention_forward.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "cuda_warp.hpp"
#include "kernel_launch.hpp"

namespace bert_hpc::ops::cuda {

/// Kind of scores: plain, with a limited mask, or with a position bias.
enum class Scores { plain, masked, biased };

template <class T, int D, bool Dropped, Scores Kind>
__global__ void __launch_bounds__(ForwardShape<T, D>::threads, ForwardShape<T, D>::blocks)
    attention_forward_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_forward<CudaWarp, T, D, Dropped>(call, Kind == Scores::masked, Kind == Scores::biased);
}

template <class T, int D>
__global__ void __launch_bounds__(BackwardShape<T, D>::threads)
    attention_dots_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_dots<CudaWarp, T, D>(call);
}

template <class T, int D, Scores Kind>
__global__ void __launch_bounds__(BackwardShape<T, D>::threads, BackwardShape<T, D>::blocks)
    attention_backward_keys_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_backward_keys<CudaWarp, T, D>(call, Kind == Scores::masked, Kind == Scores::biased);
}

template <class T, int D, Scores Kind>
__global__ void __launch_bounds__(BackwardShape<T, D>::threads, BackwardShape<T, D>::blocks)
    attention_backward_queries_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_backward_queries<CudaWarp, T, D>(call, Kind == Scores::masked, Kind == Scores::biased);
}

template <class T, int D>
__global__ void __launch_bounds__(BackwardShape<T, D>::threads)
    attention_bias_gradient_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_bias_gradient<CudaWarp, T, D>(call);
}

template <class T, int D, class Shape, bool Padded, bool Masked>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    attention_backward_sequence_kernel(const __grid_constant__ AttentionCall<T> call) {
  kernel::wait_for_earlier_kernels();
  attention_backward_sequence<CudaWarp, T, D, Shape, Padded>(call, Masked);
}

namespace {

template <class T>
using Kernel = void (*)(AttentionCall<T>);

template <class T>
void launch(const kernel::Label& label, Kernel<T> function, const Launch& how, const AttentionCall<T>& call) {
  if (how.blocks_x == 0 || how.blocks_y == 0) return;
  kernel::launch(label, function,
                 {.blocks = dim3(static_cast<unsigned>(how.blocks_x), static_cast<unsigned>(how.blocks_y)),
                  .threads = static_cast<unsigned>(how.threads),
                  .shared = static_cast<std::size_t>(how.shared_bytes)},
                 call);
}

Scores scores_of(const AttentionInputs& in) {
  if (in.bias.table.data != nullptr) return Scores::biased;
  return in.mask.is_limited() ? Scores::masked : Scores::plain;
}

/// run.template operator()<Kind>()
template <class Run>
auto with_scores(Scores kind, const Run& run) {
  if (kind == Scores::masked) return run.template operator()<Scores::masked>();
  if (kind == Scores::biased) return run.template operator()<Scores::biased>();
  return run.template operator()<Scores::plain>();
}

template <class T, int D>
Kernel<T> forward_kernel_of(bool dropped, Scores kind) {
  return with_scores(kind, [dropped]<Scores Kind>() -> Kernel<T> {
    return dropped ? attention_forward_kernel<T, D, true, Kind> : attention_forward_kernel<T, D, false, Kind>;
  });
}
template <class T, int D>
Kernel<T> keys_kernel_of(Scores kind) {
  return with_scores(kind, []<Scores Kind>() -> Kernel<T> { return attention_backward_keys_kernel<T, D, Kind>; });
}
template <class T, int D>
Kernel<T> queries_kernel_of(Scores kind) {
  return with_scores(kind, []<Scores Kind>() -> Kernel<T> { return attention_backward_queries_kernel<T, D, Kind>; });
}
/// The masked one is for padding too.
template <class T, int D, class Shape>
Kernel<T> sequence_kernel_of(bool padded, bool masked) {
  if (masked) return attention_backward_sequence_kernel<T, D, Shape, true, true>;
  return padded ? attention_backward_sequence_kernel<T, D, Shape, true, false>
                : attention_backward_sequence_kernel<T, D, Shape, false, false>;
}

/// More than 48 KiB of shared memory per block must be requested for each kernel.
template <class T>
void allow_shared_memory(Kernel<T> kernel, int bytes) {
  core::check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                   "cudaFuncSetAttribute");
}

/// run.template operator()<T, D>()
template <class Run>
void with_shape(core::DataType type, bool tf32, std::int64_t head_dim, const Run& run) {
  const auto with_head = [&]<class T>() {
    if (head_dim == 32) return run.template operator()<T, 32>();
    if (head_dim == 64) return run.template operator()<T, 64>();
    return run.template operator()<T, 128>();
  };
  if (type == core::DataType::bf16) return with_head.template operator()<core::Bf16>();
  if (type == core::DataType::fp16) return with_head.template operator()<core::Fp16>();
  if (tf32) return with_head.template operator()<Tf32>();
  with_head.template operator()<SplitFp32>();
}

/// run.template operator()<Shape>() for the kernels with a block per sequence.
template <class T, int D, class Run>
void with_sequence_shape(BackwardKernel kernel, const Run& run) {
  if constexpr (D <= 64 && !stores_floats<T>) {
    if (kernel == BackwardKernel::four_warps) run.template operator()<FourWarps<D>>();
    if (kernel == BackwardKernel::eight_warps) run.template operator()<EightWarps<D>>();
  }
  if constexpr (D == 64 && !stores_floats<T>) {
    if (kernel == BackwardKernel::eight_warps_small) run.template operator()<EightWarpsSmall>();
  }
}

std::int64_t shared_bytes_of_device() {
  int device = 0, bytes = 0;
  core::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  core::check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                   "cudaDeviceGetAttribute");
  return bytes;
}

/// 0 without a GPU: the caller then only plans and launches nothing.
int capability_of_device() {
  int devices = 0, device = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    core::clear_last_error();  // a missing device is a valid answer, not an error
    return 0;
  }
  core::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  core::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  core::check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

class FusedAttention : public Attention {
 public:
  FusedAttention(core::DataType type, bool tf32, std::unique_ptr<Attention> portable, bool split)
      : type_(type),
        tf32_(tf32),
        split_(split),
        has_device_(capability_of_device() > 0),
        capability_(has_device_ ? capability_of_device() : planned_capability),
        portable_(std::move(portable)) {}

  std::string name() const override {
    if (relative_) return portable_->name();
    return attention_name(type_, tf32_, head_dim_, capability_) + (split_ ? ", split backward" : "");
  }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool relative) override {
    head_dim_ = head_dim;
    relative_ = relative;
    if (relative || !tensor_cores_attend(head_dim, capability_)) {
      return portable_->reserve(max_length, head_dim, relative);
    }
    if (!has_device_) return 0;
    planned_length_ = std::max(planned_length_, max_length);
    backward_ =
        split_ ? BackwardKernel::split : backward_kernel(type_, head_dim, planned_length_, shared_bytes_of_device());
    with_shape(type_, tf32_, head_dim, [&]<class T, int D>() {
      for (const Scores kind : {Scores::plain, Scores::masked, Scores::biased}) {
        const int more = kind == Scores::biased ? bias_bytes : 0;
        for (const bool dropped : {false, true}) {
          allow_shared_memory(forward_kernel_of<T, D>(dropped, kind), ForwardShape<T, D>::shared_bytes + more);
        }
        allow_shared_memory(keys_kernel_of<T, D>(kind), BackwardShape<T, D>::key_bytes + more);
        allow_shared_memory(queries_kernel_of<T, D>(kind), BackwardShape<T, D>::query_bytes + more);
      }
      sums_distances_ = BiasGradientShape<T, D>::shared_bytes <= shared_bytes_of_device();
      if (sums_distances_) {
        allow_shared_memory<T>(attention_bias_gradient_kernel<T, D>, BiasGradientShape<T, D>::shared_bytes);
      }
      with_sequence_shape<T, D>(backward_, [&]<class Shape>() {
        // Requests all that is available: another instance may have reserved for longer sequences.
        const int most = static_cast<int>(shared_bytes_of_device());
        for (const bool masked : {false, true}) {
          for (const bool padded : {false, true})
            allow_shared_memory(sequence_kernel_of<T, D, Shape>(padded, masked), most);
        }
      });
    });
    return 0;
  }

  std::int64_t dropout_tiles(std::int64_t max_length, std::int64_t head_dim) const override {
    return tensor_cores_attend(head_dim, capability_) ? dropout_tiles_of(max_length) : 0;
  }

  void forward(const AttentionInputs& inputs, const AttentionResults& results) override {
    const AttentionInputs in = with_planned_mask(inputs);
    if (!here(in, {in.q, in.k, in.v, results.out})) return portable_->forward(in, results);
    with_shape(type_, tf32_, in.extents.head_dim, [&]<class T, int D>() {
      AttentionCall<T> call = attention_call<T>(in, results.kept.rows);
      call.kept = results.kept;
      call.out = results.out.as<Stored<T>>();
      call.log_sum_exp = results.log_sum_exp;
      launch<T>({"bert_hpc::ops::attention_forward", attention_work(in, 2, 2, 2)},
                forward_kernel_of<T, D>(call.threshold != 0, scores_of(in)),
                forward_launch<T, D>(in.extents, in.queries, scores_of(in) == Scores::biased), call);
    });
  }

  void backward(const AttentionInputs& inputs, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    const AttentionInputs in = with_planned_mask(inputs);
    const bool sums_here = gradients.d_bias.size() == 0 || sums_distances_;
    if (!sums_here || !here(in, {in.q, in.k, in.v, results.out, d_out, gradients.d_q, gradients.d_k, gradients.d_v})) {
      return portable_->backward(in, results, d_out, gradients);
    }
    const Scores kind = scores_of(in);
    const bool biased = kind == Scores::biased;
    const BackwardKernel kernel = biased ? BackwardKernel::split : backward_kernel_of(in.mask);
    with_shape(type_, tf32_, in.extents.head_dim, [&]<class T, int D>() {
      AttentionCall<T> call = attention_call<T>(in, results.kept.rows);
      call.saved_kept = results.kept;
      call.saved_out = results.out.as<Stored<T>>();
      call.saved_log_sum_exp = results.log_sum_exp;
      call.d_out = d_out.as<Stored<T>>();
      call.d_q = gradients.d_q.as<Stored<T>>();
      call.d_k = gradients.d_k.as<Stored<T>>();
      call.d_v = gradients.d_v.as<Stored<T>>();
      with_sequence_shape<T, D>(kernel, [&]<class Shape>() {
        core::require(in.extents.max_length <= planned_length_,
                      "attention: sequences are longer than reserve() planned");
        call.planned_rows = Shape::padded(planned_length_);
        launch<T>({"bert_hpc::ops::attention_backward", attention_work(in, 5, 4, 4)},
                  sequence_kernel_of<T, D, Shape>(call.real_keys != nullptr, kind == Scores::masked),
                  backward_sequence_launch<Shape>(in.extents, planned_length_), call);
      });
      if (kernel != BackwardKernel::split) return;
      launch<T>({"bert_hpc::ops::attention_dots", attention_work(in, 0, 2, 0)}, attention_dots_kernel<T, D>,
                dots_launch<T, D>(in.extents, in.queries), call);
      launch<T>({"bert_hpc::ops::attention_backward_keys", attention_work(in, 4, 2, 4)}, keys_kernel_of<T, D>(kind),
                backward_keys_launch<T, D>(in.extents, in.keys, biased), call);
      if (gradients.d_bias.size() > 0) {
        call.d_bias = gradients.d_bias;
        launch<T>({"bert_hpc::ops::attention_bias_gradient", attention_work(in, 0, 2, 2)},
                  attention_bias_gradient_kernel<T, D>, bias_gradient_launch<T, D>(in.extents), call);
      }
      launch<T>({"bert_hpc::ops::attention_backward_queries", attention_work(in, 1, 3, 2)},
                queries_kernel_of<T, D>(kind), backward_queries_launch<T, D>(in.extents, in.queries, biased), call);
    });
  }

 private:
  /// Limits that no planned sequence reaches are none. They follow from the plan and not from the batch, so that a
  /// sequence is computed by the same kernels in every batch.
  AttentionInputs with_planned_mask(AttentionInputs in) const {
    in.mask = in.mask.within(planned_length_);
    return in;
  }
  /// A kernel with a block per sequence would compute all keys before those of a window.
  BackwardKernel backward_kernel_of(const AttentionMask& mask) const {
    return mask.before == AttentionMask::unlimited ? backward_ : BackwardKernel::split;
  }
  /// Whether the tensor cores handle this call. Operands with unaligned rows, position biases that reach far or come
  /// with a limited mask, and relative positions go to the portable kernels.
  bool here(const AttentionInputs& in, std::initializer_list<ConstMatrix> operands) const {
    if (in.relative.any()) return false;
    bool aligned = in.bias.table.data == nullptr || (in.bias.reach <= most_bias_reach && !in.mask.is_limited());
    for (const ConstMatrix& x : operands) aligned = aligned && x.type == type_ && rows_are_aligned(x);
    return aligned && tensor_cores_attend(in.extents.head_dim, capability_);
  }

  static constexpr int planned_capability = 80;  // the lowest capability that this build supports

  core::DataType type_;
  bool tf32_;
  bool split_;
  bool has_device_;
  int capability_;
  std::unique_ptr<Attention> portable_;
  std::int64_t head_dim_ = 0, planned_length_ = 0;
  bool relative_ = false;
  bool sums_distances_ = false;  // whether shared memory has room for the position bias's gradient
  BackwardKernel backward_ = BackwardKernel::split;
};

}  // namespace

std::unique_ptr<Attention> make_fused_attention(core::DataType type, bool tf32, std::unique_ptr<Attention> portable,
                                                bool split) {
  return std::make_unique<FusedAttention>(type, tf32, std::move(portable), split);
}

}  // namespace bert_hpc::ops::cuda
