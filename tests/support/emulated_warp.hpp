// Emulates a GPU's warps on the host, for kernels written against class Warp (src/ops/cuda/attention_tile.hpp): values
// of 32 lanes at once, a block's warps as threads that take turns at barriers, fragments of mma, ldmatrix and movmatrix
// laid out as in the PTX ISA. It detects errors that results may not show: accesses outside the named arrays, shared
// memory read before it is written or copied, accesses to one word by two warps between barriers (or two lanes between
// __syncwarp()s) of which one writes, barriers that not every warp reaches, misaligned addresses, bank conflicts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "bert_hpc/ops/dropout.hpp"

namespace bert_hpc::test {

inline constexpr int lanes = 32;

/// One number per lane.
template <class T>
struct Lanes {
  std::array<T, lanes> v{};

  Lanes() = default;
  Lanes(T x) { v.fill(x); }  // NOLINT: conversion on purpose
  template <class Make>
  requires(std::is_invocable_r_v<T, Make, int>) static Lanes of(const Make& make) {
    Lanes r;
    for (int i = 0; i < lanes; ++i) r[i] = static_cast<T>(make(i));
    return r;
  }
  T& operator[](int i) { return v[static_cast<std::size_t>(i)]; }
  T operator[](int i) const { return v[static_cast<std::size_t>(i)]; }

  friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] + b[i]; });
  }
  friend Lanes operator-(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] - b[i]; });
  }
  friend Lanes operator*(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] * b[i]; });
  }
  friend Lanes operator/(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] / b[i]; });
  }
  friend Lanes operator%(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] % b[i]; });
  }
  friend Lanes operator&(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] & b[i]; });
  }
  friend Lanes operator|(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] | b[i]; });
  }
  friend Lanes operator^(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] ^ b[i]; });
  }
  friend Lanes operator>>(const Lanes& a, int shift) {
    return of([&](int i) { return a[i] >> shift; });
  }
  friend Lanes operator>>(const Lanes& a, const Lanes<int>& shift) {
    return of([&](int i) { return a[i] >> shift[i]; });
  }
  friend Lanes operator<<(const Lanes& a, int shift) {
    return of([&](int i) { return a[i] << shift; });
  }
  using Mask = Lanes<bool>;
  friend Mask operator<(const Lanes& a, const Lanes& b) {
    return Mask::of([&](int i) { return a[i] < b[i]; });
  }
  friend Mask operator<=(const Lanes& a, const Lanes& b) {
    return Mask::of([&](int i) { return a[i] <= b[i]; });
  }
  friend Mask operator>=(const Lanes& a, const Lanes& b) {
    return Mask::of([&](int i) { return a[i] >= b[i]; });
  }
  friend Mask operator==(const Lanes& a, const Lanes& b) {
    return Mask::of([&](int i) { return a[i] == b[i]; });
  }
  friend Mask operator!=(const Lanes& a, const Lanes& b) {
    return Mask::of([&](int i) { return a[i] != b[i]; });
  }
  friend Lanes operator&&(const Lanes& a, const Lanes& b) {
    return of([&](int i) { return a[i] && b[i]; });
  }
};

/// An emulated multiprocessor that runs one block at a time.
class EmulatedDevice {
 public:
  /// Registers an array that kernels may read or, with `writes`, also write.
  void allow(const void* begin, std::size_t bytes, bool writes) {
    const char* first = static_cast<const char*>(begin);
    ranges_.push_back({first, first + bytes, writes});
  }
  void forget_arrays() { ranges_.clear(); }

  /// Runs body() in every warp of every block.
  void launch(std::int64_t blocks_x, int blocks_y, int warps, int shared_bytes, const std::function<void()>& body) {
    for (int y = 0; y < blocks_y; ++y) {
      for (int x = 0; x < blocks_x; ++x) run_block(x, y, warps, shared_bytes, body);
    }
  }

  const std::vector<std::string>& complaints() const { return complaints_; }
  /// Wavefronts of shared-memory accesses: those caused by bank conflicts, and those without conflicts.
  std::int64_t conflicts = 0, wavefronts = 0;

  // --- Interface for EmulatedWarp.
  static EmulatedDevice*& current() {
    static thread_local EmulatedDevice* device = nullptr;
    return device;
  }
  static int& warp() {
    static thread_local int number = 0;
    return number;
  }
  int block_x = 0, block_y = 0;

  void complain(const std::string& what) {
    if (complaints_.size() < 20) complaints_.push_back(what);
  }
  bool allowed(const void* address, std::size_t bytes, bool writes) {
    const char* p = static_cast<const char*>(address);
    if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) complain("a misaligned access to device memory");
    for (const Range& r : ranges_) {
      if (p >= r.begin && p + bytes <= r.end && (r.writes || !writes)) return true;
    }
    complain(writes ? "a write outside arrays" : "a read outside arrays");
    return false;
  }

  void sync_warp() { ++turn_of_[index()]; }
  void sync_block() {
    std::unique_lock lock(mutex_);
    at_barrier_[index()] = true;
    pass_on(lock);
    changed_.wait(lock, [this, me = warp()] { return turn_ == me && !at_barrier_[static_cast<std::size_t>(me)]; });
  }

  /// Checked accesses to `bytes` of shared memory from `offset` on; with the lane if only one lane accesses them.
  bool read_shared(int offset, int bytes, void* to, int lane = -1) {
    if (!inside(offset, bytes)) return false;
    for (int w = offset / 4; w < (offset + bytes) / 4; ++w) {
      Word& word = words_[static_cast<std::size_t>(w)];
      if (word.pending) {
        complain("shared memory read while it is copied to");
      } else if (word.written == 0) {
        complain("shared memory read that nothing wrote");
      } else if (word.written == epoch_ && word.writer != warp()) {
        complain("shared memory read that another warp wrote since the last barrier");
      } else if (word.writer == warp() && word.written_turn == turn_of_[index()]) {
        complain("shared memory read that another lane wrote since the last __syncwarp()");
      }
      if (word.read != epoch_) word.readers = 0;
      word.read = epoch_;
      word.readers |= 1u << warp();
      word.read_lane = word.read_turn == turn_of_[index()] && word.read_lane != lane ? -1 : lane;
      word.read_turn = turn_of_[index()];
    }
    std::memcpy(to, shared_.data() + offset, static_cast<std::size_t>(bytes));
    return true;
  }
  void write_shared(int offset, int bytes, const void* from, int lane = -1) {
    if (!inside(offset, bytes)) return;
    begin_write(offset, bytes, false, lane);
    std::memcpy(shared_.data() + offset, from, static_cast<std::size_t>(bytes));
  }

  struct Copy {
    int to, bytes;
    std::array<char, 16> data;
  };
  void start_copy(const Copy& copy) {
    if (!inside(copy.to, copy.bytes)) return;
    begin_write(copy.to, copy.bytes, true);
    started_[index()].push_back(copy);
  }
  void commit() {
    groups_[index()].push_back(started_[index()]);
    started_[index()].clear();
  }
  void wait(std::size_t but) {
    auto& groups = groups_[index()];
    while (groups.size() > but) {
      for (const Copy& copy : groups.front()) {
        for (int w = copy.to / 4; w < (copy.to + copy.bytes) / 4; ++w) {
          words_[static_cast<std::size_t>(w)].pending = false;
        }
        begin_write(copy.to, copy.bytes, false);
        std::memcpy(shared_.data() + copy.to, copy.data.data(), static_cast<std::size_t>(copy.bytes));
      }
      groups.erase(groups.begin());
    }
  }

  /// One access of a warp, `bytes` at each lane's offset: the hardware serves lanes in groups that together move 128
  /// bytes, and each further word of the same bank costs one more wavefront.
  void count_conflicts(const Lanes<int>& offset, int bytes, const Lanes<bool>& there) {
    const int group = bytes == 16 ? 8 : lanes;
    for (int first = 0; first < lanes; first += group) {
      std::array<std::array<int, lanes>, 32> words;  // words requested from each bank
      std::array<int, 32> counts{};
      int most = 0;
      for (int i = first; i < first + group; ++i) {
        if (!there[i]) continue;
        for (int w = offset[i] / 4; w < (offset[i] + bytes) / 4; ++w) {
          auto& bank = words[static_cast<std::size_t>(w % 32)];
          int& held = counts[static_cast<std::size_t>(w % 32)];
          if (std::find(bank.begin(), bank.begin() + held, w) != bank.begin() + held) continue;
          bank[static_cast<std::size_t>(held++)] = w;
          most = std::max(most, held);
        }
      }
      if (most == 0) continue;
      wavefronts += 1;
      conflicts += most - 1;
    }
  }

 private:
  struct Range {
    const char *begin, *end;
    bool writes;
  };
  struct Word {
    std::int64_t written = 0, read = 0;  // epochs: number of barriers so far + 1
    std::int64_t written_turn = 0, read_turn = 0;
    unsigned readers = 0;
    int writer = -1, read_lane = -1;
    bool pending = false;
  };

  static std::size_t index() { return static_cast<std::size_t>(warp()); }

  bool inside(int offset, int bytes) {
    if (offset % bytes != 0) complain("a misaligned access to shared memory");
    if (offset >= 0 && offset + bytes <= static_cast<int>(shared_.size())) return true;
    complain("an access outside shared memory");
    return false;
  }

  void begin_write(int offset, int bytes, bool pending, int lane = -1) {
    for (int w = offset / 4; w < (offset + bytes) / 4; ++w) {
      Word& word = words_[static_cast<std::size_t>(w)];
      if (word.pending) complain("shared memory written while it is copied to");
      if (word.read == epoch_ && (word.readers & ~(1u << warp())) != 0) {
        complain("shared memory written that another warp read since the last barrier");
      } else if (word.read == epoch_ && word.readers != 0 && word.read_turn == turn_of_[index()] &&
                 (lane < 0 || word.read_lane != lane)) {
        complain("shared memory written that another lane read since the last __syncwarp()");
      }
      if (word.written == epoch_ && word.writer != warp()) {
        complain("shared memory written by two warps since the last barrier");
      }
      word.written = epoch_;
      word.writer = warp();
      word.written_turn = turn_of_[index()];
      word.pending = pending;
    }
  }

  void run_block(int x, int y, int warps, int shared_bytes, const std::function<void()>& body) {
    const auto count = static_cast<std::size_t>(warps);
    block_x = x;
    block_y = y;
    shared_.assign(static_cast<std::size_t>(shared_bytes), static_cast<char>(0xFF));  // NaN in every type
    words_.assign(shared_.size() / 4, {});
    started_.assign(count, {});
    groups_.assign(count, {});
    turn_of_.assign(count, 1);
    at_barrier_.assign(count, false);
    finished_.assign(count, false);
    epoch_ = 1;
    left_in_ = 0;
    turn_ = 0;
    std::vector<std::thread> threads;
    for (int w = 0; w < warps; ++w) {
      threads.emplace_back([this, w, &body] {
        current() = this;
        warp() = w;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return turn_ == w; });
        }
        body();
        std::unique_lock lock(mutex_);
        finished_[static_cast<std::size_t>(w)] = true;
        if (!started_[static_cast<std::size_t>(w)].empty() || !groups_[static_cast<std::size_t>(w)].empty()) {
          complain("a warp left before its copies were there");
        }
        pass_on(lock);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Passes the turn to the next warp; after the last one, opens the barrier.
  void pass_on(const std::unique_lock<std::mutex>&) {
    const int warps = static_cast<int>(finished_.size());
    if (finished_[index()]) left_in_ = epoch_;
    int next = turn_ + 1;
    while (next < warps && finished_[static_cast<std::size_t>(next)]) ++next;
    if (next == warps) {
      bool waiting = false;
      for (std::size_t w = 0; w < finished_.size(); ++w) {
        waiting = waiting || at_barrier_[w];
        at_barrier_[w] = false;
      }
      if (waiting && left_in_ == epoch_) complain("a barrier that some warps never reach");
      ++epoch_;
      for (std::int64_t& turn : turn_of_) ++turn;
      for (next = 0; next < warps && finished_[static_cast<std::size_t>(next)];) ++next;
    }
    turn_ = next;
    changed_.notify_all();
  }

  std::vector<Range> ranges_;
  std::vector<std::string> complaints_;
  std::vector<char> shared_;
  std::vector<Word> words_;
  std::vector<std::vector<Copy>> started_;
  std::vector<std::vector<std::vector<Copy>>> groups_;
  std::vector<std::int64_t> turn_of_;
  std::vector<bool> at_barrier_, finished_;
  std::int64_t epoch_ = 1, left_in_ = 0;
  int turn_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The 16-bit number in the lower half of a register.
template <class T>
float half_number(std::uint32_t bits) {
  T x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

/// c += a · b on the fragments of mma.m16n8k16 (bf16 or fp16) and mma.m16n8k8 (tf32) in emulated_products.cpp, which is
/// compiled for speed.
void multiply_add_tile(bert_hpc::core::DataType type, const Lanes<std::uint32_t> (&a)[4],
                       const Lanes<std::uint32_t>& b0, const Lanes<std::uint32_t>& b1, Lanes<float> (&c)[4]);
void multiply_add_tile_tf32(const Lanes<std::uint32_t> (&a)[4], const Lanes<std::uint32_t> (&b)[2],
                            Lanes<float> (&c)[4]);

/// The functions are those of CudaWarp, documented in src/ops/cuda/cuda_warp.hpp.
struct EmulatedWarp {
  using F32 = Lanes<float>;
  using U32 = Lanes<std::uint32_t>;
  using I32 = Lanes<int>;
  using I64 = Lanes<std::int64_t>;
  using Mask = Lanes<bool>;

  static EmulatedDevice& device() { return *EmulatedDevice::current(); }
  static int block_x() { return device().block_x; }
  static int block_y() { return device().block_y; }
  static I32 lane() {
    return I32::of([](int i) { return i; });
  }
  static I32 thread() { return lane() + warp() * lanes; }
  static int warp() { return EmulatedDevice::warp(); }
  template <class I>
  static I opaque(const I& x) {
    return x;
  }
  static void sync_warp() { device().sync_warp(); }
  static void sync_block() { device().sync_block(); }

  static I64 wide(const I32& x) {
    return I64::of([&](int i) { return x[i]; });
  }
  static I64 multiply_wide(const I32& a, const I32& b, const I64& c) {
    return I64::of([&](int i) { return std::int64_t{a[i]} * b[i] + c[i]; });
  }
  static U32 bits(const I32& x) {
    return U32::of([&](int i) { return static_cast<std::uint32_t>(x[i]); });
  }
  static U32 bits_of(const F32& x) {
    return U32::of([&](int i) { return __builtin_bit_cast(std::uint32_t, x[i]); });
  }
  static F32 number(const U32& bits) {
    return F32::of([&](int i) { return __builtin_bit_cast(float, bits[i]); });
  }
  static F32 fma(const F32& a, const F32& b, const F32& c) {
    return F32::of([&](int i) { return std::fma(a[i], b[i], c[i]); });
  }
  template <class T>
  static Lanes<T> select(const Mask& which, const Lanes<T>& yes, const Lanes<T>& no) {
    return Lanes<T>::of([&](int i) { return which[i] ? yes[i] : no[i]; });
  }
  static F32 max(const F32& a, const F32& b) {
    return F32::of([&](int i) { return std::fmax(a[i], b[i]); });
  }
  static F32 exp2(const F32& x) {
    return F32::of([&](int i) { return std::exp2(x[i]); });
  }
  static F32 log(const F32& x) {
    return F32::of([&](int i) { return std::log(x[i]); });
  }
  template <class T>
  static U32 pack(const F32& low, const F32& high) {
    return U32::of([&](int i) { return T(low[i]).bits | static_cast<std::uint32_t>(T(high[i]).bits) << 16; });
  }
  template <class T>
  static F32 lower(const U32& pair) {
    return F32::of([&](int i) { return half_number<T>(pair[i]); });
  }
  template <class T>
  static F32 upper(const U32& pair) {
    return F32::of([&](int i) { return half_number<T>(pair[i] >> 16); });
  }
  static void dropout_bits(const bert_hpc::core::Dropout& dropout, std::int64_t sample, const U32& row,
                           const U32& block, U32 (&words)[4]) {
    for (int i = 0; i < lanes; ++i) {
      const auto drawn = bert_hpc::ops::dropout_bits(dropout, sample, row[i], block[i]);
      for (int w = 0; w < 4; ++w) words[w][i] = drawn.word[w];
    }
  }

  template <class T>
  static Lanes<T> exchange(const Lanes<T>& x, int distance) {
    return Lanes<T>::of([&](int i) { return x[i ^ distance]; });
  }
  template <class T>
  static Lanes<T> from_lane(const Lanes<T>& x, const I32& source) {
    return Lanes<T>::of([&](int i) { return x[source[i]]; });
  }
  template <unsigned Selector>
  static U32 permute(const U32& low, const U32& high) {
    return permute_any(low, high, U32(Selector));
  }
  static U32 permute(const U32& low, const U32& high, const U32& selector) {
    return permute_any(low, high, selector & 0x7777u);
  }
  static int uniform(const U32& x) {
    for (int i = 1; i < lanes; ++i) {
      if (x[i] != x[0]) device().complain("a number that should be the same in all lanes");
    }
    return static_cast<int>(x[0]);
  }
  static int count(const Mask& x) {
    int total = 0;
    for (int i = 0; i < lanes; ++i) total += x[i] ? 1 : 0;
    return total;
  }
  /// Element (row, column) of an 8 × 8 matrix in lanes.
  static std::uint16_t element(const U32& pairs, int row, int column) {
    return static_cast<std::uint16_t>(pairs[row * 4 + column / 2] >> (16 * (column % 2)));
  }
  static U32 transpose(const U32& pairs) {
    return U32::of([&](int i) {
      const int row = i / 4, column = i % 4 * 2;
      return element(pairs, column, row) | static_cast<std::uint32_t>(element(pairs, column + 1, row)) << 16;
    });
  }
  template <class T>
  static void multiply_add(const U32 (&a)[4], const U32& b0, const U32& b1, F32 (&c)[4]) {
    multiply_add_tile(bert_hpc::core::data_type_of<T>, a, b0, b1, c);
  }
  static void multiply_add_tf32(const U32 (&a)[4], const U32 (&b)[2], F32 (&c)[4]) { multiply_add_tile_tf32(a, b, c); }

  template <class V>
  static V load_one(const V* from) {
    V value{};
    if (device().allowed(from, sizeof(V), false)) std::memcpy(&value, from, sizeof(V));
    return value;
  }
  template <class V, class I>
  static Lanes<V> load(const V* from, const Lanes<I>& index, const Mask& mask, V otherwise) {
    return Lanes<V>::of([&](int i) { return mask[i] ? load_one(from + index[i]) : otherwise; });
  }
  template <class V, class I>
  static void store(V* to, const Lanes<I>& index, const Lanes<V>& value, const Mask& mask) {
    for (int i = 0; i < lanes; ++i) {
      if (mask[i] && device().allowed(to + index[i], sizeof(V), true))
        std::memcpy(to + index[i], &value.v[std::size_t(i)], sizeof(V));
    }
  }
  template <class T>
  static void store8(T* to, const I64& index, const U32& low, const U32& high, const Mask& mask) {
    for (int i = 0; i < lanes; ++i) {
      const std::uint32_t written[2] = {low[i], high[i]};
      if (mask[i] && device().allowed(to + index[i], 8, true)) std::memcpy(to + index[i], written, 8);
    }
  }
  template <class T>
  static void load16(const T* from, const I64& index, U32 (&words)[4], const Mask& mask) {
    for (int i = 0; i < lanes; ++i) {
      std::uint32_t read[4] = {};
      if (mask[i] && device().allowed(from + index[i], 16, false)) std::memcpy(read, from + index[i], 16);
      for (int w = 0; w < 4; ++w) words[w][i] = read[w];
    }
  }
  template <class T>
  static void store16(T* to, const I64& index, const U32 (&words)[4], const Mask& mask) {
    for (int i = 0; i < lanes; ++i) {
      const std::uint32_t written[4] = {words[0][i], words[1][i], words[2][i], words[3][i]};
      if (mask[i] && device().allowed(to + index[i], 16, true)) std::memcpy(to + index[i], written, 16);
    }
  }

  template <class T>
  static void copy16_async(const I32& to, const T* from, const I32& row, int stride, const I32& column,
                           const Mask& mask) {
    copy_async(to, 16, from, multiply_wide(row, stride, wide(column)), true, mask);
  }
  template <class V>
  static void copy4_async(const I32& to, const V* from, const I64& index, const Mask& there, const Mask& mask) {
    copy_async(to, 4, from, index, there, mask);
  }
  static void commit() { device().commit(); }
  template <int N>
  static void wait() {
    device().wait(N);
  }
  static void load_matrix(const I32& from, U32 (&words)[4]) {
    device().count_conflicts(from, 16, true);
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int row = 0; row < 8; ++row) {
        std::uint32_t read[4] = {};
        device().read_shared(from[8 * matrix + row], 16, read);
        for (int i = 0; i < 4; ++i) words[matrix][4 * row + i] = read[i];
      }
    }
  }
  static void load_matrix_transposed(const I32& from, U32 (&words)[4]) {
    load_matrix(from, words);
    for (U32& matrix : words) matrix = transpose(matrix);
  }
  static U32 load_shared(const I32& from) {
    device().count_conflicts(from, 4, true);
    U32 result;
    for (int i = 0; i < lanes; ++i) device().read_shared(from[i], 4, &result[i]);
    return result;
  }
  static F32 load_shared_float(const I32& from) {
    const U32 read = load_shared(from);
    return F32::of([&](int i) { return __builtin_bit_cast(float, read[i]); });
  }
  static void load_shared16(const I32& from, U32 (&words)[4]) {
    device().count_conflicts(from, 16, true);
    for (int i = 0; i < lanes; ++i) {
      std::uint32_t read[4] = {};
      device().read_shared(from[i], 16, read);
      for (int w = 0; w < 4; ++w) words[w][i] = read[w];
    }
  }
  static void load_shared16(const I32& from, F32 (&numbers)[4]) {
    device().count_conflicts(from, 16, true);
    for (int i = 0; i < lanes; ++i) {
      float read[4] = {};
      device().read_shared(from[i], 16, read, i);
      for (int w = 0; w < 4; ++w) numbers[w][i] = read[w];
    }
  }
  static void store_shared16(const I32& to, const F32 (&numbers)[4]) {
    device().count_conflicts(to, 16, true);
    for (int i = 0; i < lanes; ++i) {
      const float written[4] = {numbers[0][i], numbers[1][i], numbers[2][i], numbers[3][i]};
      device().write_shared(to[i], 16, written, i);
    }
  }
  static void store_shared(const I32& to, const U32& value, const Mask& mask = true) {
    device().count_conflicts(to, 4, mask);
    for (int i = 0; i < lanes; ++i) {
      if (mask[i]) device().write_shared(to[i], 4, &value.v[static_cast<std::size_t>(i)]);
    }
  }

 private:
  static U32 permute_any(const U32& low, const U32& high, const U32& selector) {
    return U32::of([&](int i) {
      const std::uint64_t bytes = low[i] | static_cast<std::uint64_t>(high[i]) << 32;
      std::uint32_t result = 0;
      for (int b = 0; b < 4; ++b) {
        const unsigned digit = selector[i] >> (4 * b) & 15;
        const auto byte = static_cast<std::uint32_t>(bytes >> (8 * (digit & 7)) & 0xFF);
        result |= (digit < 8 ? byte : (byte >> 7) * 0xFF) << (8 * b);
      }
      return result;
    });
  }
  template <class V>
  static void copy_async(const I32& to, int bytes, const V* from, const I64& index, const Mask& there,
                         const Mask& mask) {
    device().count_conflicts(to, bytes, there);
    for (int i = 0; i < lanes; ++i) {
      if (!there[i]) continue;
      EmulatedDevice::Copy copy{to[i], bytes, {}};
      const auto size = static_cast<std::size_t>(bytes);
      if (mask[i] && device().allowed(from + index[i], size, false)) std::memcpy(&copy.data, from + index[i], size);
      device().start_copy(copy);
    }
  }
};

}  // namespace bert_hpc::test
