// Shared by the parts of io/hdf5: the library's types, its error stack as text, and the mapping of our element types.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::io::detail {

static_assert(sizeof(hid_t) == sizeof(std::int64_t), "HDF5 1.10 or newer is needed");

/// Disables the library's printing of errors and its loading of filter plug-ins. Cheap; call it before every use.
void prepare_library();

/// False for a numeric type that uses only part of its bytes, or claims more bits than it has (HDF5 1.10 trusts a
/// file's bit offsets and reads beyond its buffers); true for all other types.
bool is_sound_type(hid_t type);

/// The innermost entry of the library's error stack, which is the root cause.
std::string library_reason();

template <Hdf5Element T>
hid_t memory_type();
template <>
inline hid_t memory_type<std::int8_t>() {
  return H5T_NATIVE_INT8;
}
template <>
inline hid_t memory_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
inline hid_t memory_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
inline hid_t memory_type<std::uint8_t>() {
  return H5T_NATIVE_UINT8;
}
template <>
inline hid_t memory_type<std::uint16_t>() {
  return H5T_NATIVE_UINT16;
}
template <>
inline hid_t memory_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
inline hid_t memory_type<double>() {
  return H5T_NATIVE_DOUBLE;
}

/// Product of the extents, or −1 if it exceeds 2^53 (none of our files does) or an extent is negative.
inline std::int64_t checked_product(const std::vector<std::int64_t>& extents) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0 || (product > 0 && extent > limit / product)) return -1;
    product *= extent;
  }
  return product;
}

inline int close_type(std::int64_t id) {
  return H5Tclose(id);
}
inline int close_space(std::int64_t id) {
  return H5Sclose(id);
}
inline int close_properties(std::int64_t id) {
  return H5Pclose(id);
}
inline int close_dataset(std::int64_t id) {
  return H5Dclose(id);
}
inline int close_object(std::int64_t id) {
  return H5Oclose(id);
}
inline int close_attribute(std::int64_t id) {
  return H5Aclose(id);
}
inline int close_file(std::int64_t id) {
  return H5Fclose(id);
}

/// UTF-8 text; width 0: variable length.
Hdf5Handle text_type(std::size_t width);

/// Call it after a failed write to the file of `object` (a file or dataset): the library then finishes in memory, so
/// that it can close the file. See salvage.cpp.
void divert_to_memory(std::int64_t object) noexcept;
bool is_diverted(std::int64_t object) noexcept;

/// Throws Error(code): "Cannot {doing} 'object' of 'path': {reason}".
[[noreturn]] void fail(core::ExitCode code, const std::string& doing, const std::string& object,
                       const std::string& path, const std::string& reason);

}  // namespace bert_hpc::io::detail
