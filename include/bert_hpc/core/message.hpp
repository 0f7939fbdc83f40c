// Conversion of typed values to bytes and back, for messages between the ranks of a program. All ranks run the same
// build, so numbers keep their representation in memory. A struct takes part by naming its fields once:
//   template <class Self> static auto fields(Self& self) { return std::tie(self.host, self.cores); }
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace bert_hpc::core {

template <class T>
concept HasFields = requires(T& object) {
  T::fields(object);
};

/// Writes numbers, enumerations, text, and vectors, pairs and optional values of these and of structs with fields.
class MessageWriter {
 public:
  template <class T>
  void add(const T& value) {
    if constexpr (HasFields<const T>) {
      std::apply([this](const auto&... field) { (add(field), ...); }, T::fields(value));
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      add_bytes(&value, sizeof value);
    }
  }
  void add(const std::string& text) {
    add(text.size());
    add_bytes(text.data(), text.size());
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.size());
    if constexpr (std::is_arithmetic_v<T>) {
      add_bytes(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) add(value);
    }
  }
  template <class A, class B>
  void add(const std::pair<A, B>& value) {
    add(value.first);
    add(value.second);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }

  std::string take() { return std::move(bytes_); }

 private:
  void add_bytes(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

/// Reads the same values back. Throws std::runtime_error if the bytes end too early.
class MessageReader {
 public:
  explicit MessageReader(std::span<const char> bytes) : rest_(bytes) {}

  template <class T>
  void read(T& value) {
    if constexpr (HasFields<T>) {
      std::apply([this](auto&... field) { (read(field), ...); }, T::fields(value));
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      std::memcpy(&value, next(sizeof value), sizeof value);
    }
  }
  void read(std::string& text) {
    const std::size_t size = count(1);
    text.assign(next(size), size);
  }
  template <class T>
  void read(std::vector<T>& values) {
    if constexpr (std::is_arithmetic_v<T>) {
      values.resize(count(sizeof(T)));
      const std::size_t bytes = values.size() * sizeof(T);
      const char* const data = next(bytes);
      if (bytes > 0) std::memcpy(values.data(), data, bytes);
    } else {
      values.assign(count(1), T{});
      for (T& value : values) read(value);
    }
  }
  template <class A, class B>
  void read(std::pair<A, B>& value) {
    read(value.first);
    read(value.second);
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool there = false;
    read(there);
    if (there) {
      read(value.emplace());
    } else {
      value.reset();
    }
  }

  bool at_end() const { return rest_.empty(); }

 private:
  /// Reads the number of elements that follow, each of at least `least` bytes.
  std::size_t count(std::size_t least) {
    std::size_t size = 0;
    read(size);
    if (size > rest_.size() / least) throw std::runtime_error("a message between ranks is incomplete");
    return size;
  }
  const char* next(std::size_t size) {
    if (size > rest_.size()) throw std::runtime_error("a message between ranks is incomplete");
    const char* const data = rest_.data();
    rest_ = rest_.subspan(size);
    return data;
  }
  std::span<const char> rest_;
};

template <class T>
std::string to_message(const T& value) {
  MessageWriter writer;
  writer.add(value);
  return writer.take();
}

template <class T>
T from_message(const std::string& bytes) {
  T value{};
  MessageReader(std::span(bytes.data(), bytes.size())).read(value);
  return value;
}

}  // namespace bert_hpc::core
