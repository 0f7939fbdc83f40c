// NarrowArray: many small numbers in as few bytes as the largest of them needs, for arrays with an element per row of
// data sets that may have hundreds of millions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace bert_hpc::core {

/// An array of 32-bit numbers that are rarely negative. An element takes 1, 2 or 4 bytes, and none while all are equal.
/// A larger number widens the array, which copies it: at most three times.
class NarrowArray {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool all_equal() const { return width_ == 0; }  ///< known without a search

  std::int32_t operator[](std::size_t index) const {
    switch (width_) {
      case 0:
        return value_;
      case 1:
        return bytes_[index];
      case 2:
        return halves_[index];
      default:
        return words_[index];
    }
  }

  void push_back(std::int32_t value) {
    if (size_ == 0) value_ = value;
    if (needed(value) > width_) widen(needed(value));
    ++size_;
    switch (width_) {
      case 0:
        break;
      case 1:
        bytes_.push_back(static_cast<std::uint8_t>(value));
        break;
      case 2:
        halves_.push_back(static_cast<std::uint16_t>(value));
        break;
      default:
        words_.push_back(value);
    }
  }

  void set(std::size_t index, std::int32_t value) {
    if (needed(value) > width_) widen(needed(value));
    switch (width_) {
      case 0:
        break;
      case 1:
        bytes_[index] = static_cast<std::uint8_t>(value);
        break;
      case 2:
        halves_[index] = static_cast<std::uint16_t>(value);
        break;
      default:
        words_[index] = value;
    }
  }

  /// Sum of the elements [first, last).
  std::int64_t sum(std::size_t first, std::size_t last) const {
    // In parts whose sums take 32 bits, as vector units add twice as many of these at once.
    const auto sum_of = [&](const auto& array) {
      constexpr std::size_t part = std::size_t{1} << 15;
      std::int64_t sum = 0;
      for (std::size_t at = first; at < last; at += part) {
        std::uint32_t partial = 0;
        for (std::size_t i = at; i < std::min(last, at + part); ++i) partial += array[i];
        sum += partial;
      }
      return sum;
    };
    switch (width_) {
      case 0:
        return static_cast<std::int64_t>(last - first) * value_;
      case 1:
        return sum_of(bytes_);
      case 2:
        return sum_of(halves_);
      default:
        return std::accumulate(words_.begin() + static_cast<std::ptrdiff_t>(first),
                               words_.begin() + static_cast<std::ptrdiff_t>(last), std::int64_t{0});
    }
  }

  /// Asks for the memory of an element that will be read soon.
  void prefetch(std::size_t index) const {
    if (width_ == 1) __builtin_prefetch(bytes_.data() + index);
    if (width_ == 2) __builtin_prefetch(halves_.data() + index);
    if (width_ == 4) __builtin_prefetch(words_.data() + index);
  }

  /// Gives back what growing has reserved.
  void shrink_to_fit() {
    bytes_.shrink_to_fit();
    halves_.shrink_to_fit();
    words_.shrink_to_fit();
  }

  std::size_t memory_bytes() const {
    return bytes_.capacity() + halves_.capacity() * sizeof(std::uint16_t) + words_.capacity() * sizeof(std::int32_t);
  }

 private:
  static int bytes_of(std::int32_t value) {
    if (value < 0 || value > std::numeric_limits<std::uint16_t>::max()) return 4;
    return value > std::numeric_limits<std::uint8_t>::max() ? 2 : 1;
  }
  /// Bytes of an element so that the array can hold `value`.
  int needed(std::int32_t value) const { return width_ == 0 && value == value_ ? 0 : bytes_of(value); }

  void widen(int width) {
    if (width_ == 0) width = std::max(width, bytes_of(value_));
    if (width == 1) copy_to(bytes_);
    if (width == 2) copy_to(halves_);
    if (width == 4) copy_to(words_);
    if (width_ == 1) bytes_ = {};
    if (width_ == 2) halves_ = {};
    width_ = width;
  }

  template <class T>
  void copy_to(std::vector<T>& array) const {
    array.reserve(size_ + 1);
    for (std::size_t i = 0; i < size_; ++i) array.push_back(static_cast<T>((*this)[i]));
  }

  std::size_t size_ = 0;
  int width_ = 0;                    // bytes of an element
  std::int32_t value_ = 0;           // of all elements, where width_ is 0
  std::vector<std::uint8_t> bytes_;  // of the three the one of width_ has the elements
  std::vector<std::uint16_t> halves_;
  std::vector<std::int32_t> words_;
};

}  // namespace bert_hpc::core
