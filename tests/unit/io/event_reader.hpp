// Event files read back, from the formats' definitions and by nothing of the encoder but its checksum, which has
// examples of its own.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../src/io/event_file.hpp"

namespace bert_hpc::test {

template <class T>
T number_at(const std::string& bytes, std::size_t offset) {
  T value{};
  REQUIRE(offset + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof value);  // these hosts are little-endian
  return value;
}

/// TensorFlow's crc32c::Mask.
inline std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/// The payloads of the whole records; what is torn or damaged ends them.
inline std::vector<std::string> payloads(const std::string& bytes) {
  std::vector<std::string> found;
  for (std::size_t offset = 0; offset + 12 <= bytes.size();) {
    const auto size = static_cast<std::size_t>(number_at<std::uint64_t>(bytes, offset));
    if (number_at<std::uint32_t>(bytes, offset + 8) != masked(bert_hpc::io::detail::crc32c(bytes.substr(offset, 8))))
      break;
    if (size > bytes.size() || offset + 16 + size > bytes.size()) break;
    const std::string payload = bytes.substr(offset + 12, size);
    if (number_at<std::uint32_t>(bytes, offset + 12 + size) != masked(bert_hpc::io::detail::crc32c(payload))) break;
    found.push_back(payload);
    offset += 16 + size;
  }
  return found;
}

struct Field {
  std::uint64_t number = 0, bits = 0;  ///< bits: of a number
  std::string bytes;                   ///< of text and messages
};

inline std::vector<Field> fields_of(const std::string& message) {
  std::size_t offset = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(offset < message.size());
      const auto byte = static_cast<unsigned char>(message[offset++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<Field> found;
  while (offset < message.size()) {
    const std::uint64_t key = varint();
    Field field{key >> 3, 0, {}};
    const std::uint64_t kind = key & 7;
    if (kind == 0) field.bits = varint();
    if (kind == 1) field.bits = number_at<std::uint64_t>(message, offset), offset += 8;
    if (kind == 5) field.bits = number_at<std::uint32_t>(message, offset), offset += 4;
    if (kind == 2) {
      const std::uint64_t size = varint();
      field.bytes = message.substr(offset, size);
      REQUIRE(field.bytes.size() == size);
      offset += size;
    }
    found.push_back(field);
  }
  return found;
}

inline float as_float(std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

inline double as_double(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Point {
  std::int64_t step = 0;
  float value = 0;
  double time = 0;
};
using Curves = std::map<std::string, std::vector<Point>>;

inline Curves curves_of(const std::string& bytes) {
  Curves curves;
  for (const std::string& payload : payloads(bytes)) {
    Point point;
    for (const Field& field : fields_of(payload)) {
      if (field.number == 1) point.time = as_double(field.bits);
      if (field.number == 2) point.step = static_cast<std::int64_t>(field.bits);
      if (field.number != 5) continue;
      for (const Field& value : fields_of(field.bytes)) {
        const std::vector<Field> parts = fields_of(value.bytes);
        REQUIRE(parts.size() == 2);
        point.value = as_float(parts[1].bits);
        curves[parts[0].bytes].push_back(point);
      }
    }
  }
  return curves;
}

}  // namespace bert_hpc::test
