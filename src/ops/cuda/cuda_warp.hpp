// A warp of a GPU (sm_80 and later) as the kernels of this folder use it: a thin function for every intrinsic (PTX ISA:
// mma, ldmatrix, movmatrix, cp.async). A lane's numbers are ordinary scalars here.
#pragma once

#include <cuda_runtime.h>

#include "bert_hpc/ops/dropout.hpp"

namespace bert_hpc::ops::cuda {

extern __shared__ uint4 block_memory[];

struct CudaWarp {
  using F32 = float;
  using U32 = std::uint32_t;
  using I32 = int;
  using I64 = std::int64_t;
  using Mask = bool;

  // --- Position. Threads of a block lie along x.
  __device__ static int block_x() { return static_cast<int>(blockIdx.x); }
  __device__ static int block_y() { return static_cast<int>(blockIdx.y); }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  /// Equal for all lanes; the shuffle lets the compiler know this.
  __device__ static int warp() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0); }

  __device__ static void sync_warp() { __syncwarp(); }
  __device__ static void sync_block() { __syncthreads(); }

  /// x, hidden from the compiler's analysis, so that values derived from it are computed at their use.
  template <class I>
  __device__ static I opaque(I x) {
    static_assert(sizeof(I) == 4);
    asm volatile("" : "+r"(x));
    return x;
  }

  // --- Numbers.
  __device__ static std::int64_t wide(int x) { return x; }
  /// a·b + c in one instruction. The compiler multiplies 64-bit numbers, which takes four, if it converts a factor
  /// outside a loop.
  __device__ static std::int64_t multiply_wide(int a, int b, std::int64_t c) {
    std::int64_t result;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(c));
    return result;
  }
  __device__ static std::uint32_t bits(int x) { return static_cast<std::uint32_t>(x); }
  __device__ static std::uint32_t bits_of(float x) { return __float_as_uint(x); }
  __device__ static float number(std::uint32_t bits) { return __uint_as_float(bits); }
  /// a · b + c, rounded once.
  __device__ static float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
  template <class V>
  __device__ static V select(bool which, V yes, V no) {
    return which ? yes : no;
  }
  __device__ static float max(float a, float b) { return fmaxf(a, b); }
  __device__ static float exp2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
  __device__ static float log(float x) { return logf(x); }
  /// Two numbers rounded to T, the first one in the lower half.
  template <class T>
  __device__ static std::uint32_t pack(float low, float high) {
    std::uint32_t result;
    if constexpr (core::data_type_of<T> == core::DataType::bf16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    }
    return result;
  }
  template <class T>
  __device__ static float lower(std::uint32_t pair) {
    return half_of<T>(static_cast<std::uint16_t>(pair));
  }
  template <class T>
  __device__ static float upper(std::uint32_t pair) {
    return half_of<T>(static_cast<std::uint16_t>(pair >> 16));
  }
  __device__ static void dropout_bits(const Dropout& dropout, std::int64_t sample, std::uint32_t row,
                                      std::uint32_t block, std::uint32_t (&words)[4]) {
    const core::Philox4 drawn = ops::dropout_bits(dropout, sample, row, block);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = drawn.word[i];
  }

  /// Selects four of the eight bytes of two words, 0 to 3 from low and 4 to 7 from high: digits of Selector, lowest
  /// first. A digit d from 8 on gives the top bit of byte d − 8 in all bits of the result's byte (PTX ISA, "prmt").
  template <unsigned Selector>
  __device__ static std::uint32_t permute(std::uint32_t low, std::uint32_t high) {
    std::uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "n"(Selector));
    return result;
  }
  /// As above with a lane's own digits, below 8.
  __device__ static std::uint32_t permute(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
    return __byte_perm(low, high, selector);
  }

  // --- Exchange between lanes.
  /// The value of the lane whose number differs in this bit.
  template <class V>
  __device__ static V exchange(V x, int distance) {
    return __shfl_xor_sync(~0u, x, distance);
  }
  /// The value of lane `source`.
  template <class V>
  __device__ static V from_lane(V x, int source) {
    return __shfl_sync(~0u, x, source);
  }
  /// A number that is equal in all lanes, marked as uniform for the compiler.
  __device__ static int uniform(std::uint32_t x) {
    return static_cast<int>(__shfl_sync(~0u, x, 0));
  }
  __device__ static int count(bool x) {
    return __popc(__ballot_sync(~0u, x));
  }
  /// Transposes an 8 × 8 matrix of 16-bit elements; each lane holds two elements of row lane / 4.
  __device__ static std::uint32_t transpose(std::uint32_t pair) {
    std::uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
  }
  /// c (16 × 8) += a (16 × 16) · b (16 × 8), operands of type T, sums in float.
  template <class T>
  __device__ static void multiply_add(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
    if constexpr (core::data_type_of<T> == core::DataType::bf16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
  }
  /// c (16 × 8) += a (16 × 8) · b (8 × 8), operands floats of which TF32's upper 19 bits count, sums in float.
  __device__ static void multiply_add_tf32(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }

  // --- Device memory. Indices are in elements; elements that a lane's mask excludes are not accessed.
  template <class V>
  __device__ static V load_one(const V* from) {
    return *from;
  }
  template <class V, class I>
  __device__ static V load(const V* from, I index, bool mask, V otherwise) {
    return mask ? from[index] : otherwise;
  }
  template <class V, class I>
  __device__ static void store(V* to, I index, V value, bool mask) {
    if (mask) to[index] = value;
  }
  /// Stores 8 bytes at a multiple of 8.
  template <class T>
  __device__ static void store8(T* to, std::int64_t index, std::uint32_t low, std::uint32_t high, bool mask) {
    if (mask) *reinterpret_cast<uint2*>(to + index) = make_uint2(low, high);
  }
  /// Loads 16 bytes from a multiple of 16; zeros if the mask excludes them.
  template <class T>
  __device__ static void load16(const T* from, std::int64_t index, std::uint32_t (&words)[4], bool mask) {
    const uint4 read = mask ? *reinterpret_cast<const uint4*>(from + index) : make_uint4(0, 0, 0, 0);
    words[0] = read.x, words[1] = read.y, words[2] = read.z, words[3] = read.w;
  }
  template <class T>
  __device__ static void store16(T* to, std::int64_t index, const std::uint32_t (&words)[4], bool mask) {
    if (mask) *reinterpret_cast<uint4*>(to + index) = make_uint4(words[0], words[1], words[2], words[3]);
  }

  // --- Shared memory, by offsets in bytes.
  /// Starts to copy 16 bytes from an element of a matrix, or writes zeros if the mask excludes them.
  template <class T>
  __device__ static void copy16_async(int to, const T* from, int row, int stride, int column, bool mask) {
    const std::int64_t source =
        multiply_wide(row, stride * static_cast<int>(sizeof(T)), reinterpret_cast<std::int64_t>(from + column));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(to)), "l"(source), "r"(mask ? 16 : 0)
                 : "memory");
  }
  /// As above for 4 bytes, only for lanes in `there`.
  template <class V>
  __device__ static void copy4_async(int to, const V* from, std::int64_t index, bool there, bool mask) {
    static_assert(sizeof(V) == 4);
    if (there) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(to)), "l"(from + index),
                   "r"(mask ? 4 : 0)
                   : "memory");
    }
  }
  /// Groups all copies started since the last commit; wait<N>() waits until all but the last N groups have arrived.
  __device__ static void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int N>
  __device__ static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
  }
  /// Loads four matrices of 8 × 8: lane 8·i + r gives the address of row r of matrix i.
  __device__ static void load_matrix(int from, std::uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address(from)));
  }
  __device__ static void load_matrix_transposed(int from, std::uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address(from)));
  }
  __device__ static std::uint32_t load_shared(int from) {
    return *reinterpret_cast<std::uint32_t*>(bytes() + from);
  }
  __device__ static float load_shared_float(int from) {
    return __uint_as_float(load_shared(from));
  }
  __device__ static void load_shared16(int from, std::uint32_t (&words)[4]) {
    const uint4 read = *reinterpret_cast<const uint4*>(bytes() + from);
    words[0] = read.x, words[1] = read.y, words[2] = read.z, words[3] = read.w;
  }
  __device__ static void load_shared16(int from, float (&numbers)[4]) {
    const float4 read = *reinterpret_cast<const float4*>(bytes() + from);
    numbers[0] = read.x, numbers[1] = read.y, numbers[2] = read.z, numbers[3] = read.w;
  }
  __device__ static void store_shared16(int to, const float (&numbers)[4]) {
    *reinterpret_cast<float4*>(bytes() + to) = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
  }
  __device__ static void store_shared(int to, std::uint32_t value, bool mask = true) {
    if (mask) *reinterpret_cast<std::uint32_t*>(bytes() + to) = value;
  }

 private:
  __device__ static char* bytes() {
    return reinterpret_cast<char*>(block_memory);
  }
  __device__ static std::uint32_t address(int offset) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(block_memory)) + static_cast<std::uint32_t>(offset);
  }
  template <class T>
  __device__ static float half_of(std::uint16_t bits) {
    if constexpr (core::data_type_of<T> == core::DataType::bf16) return core::float_of_bf16(bits);
    return core::float_of_fp16(bits);
  }
};

}  // namespace bert_hpc::ops::cuda
