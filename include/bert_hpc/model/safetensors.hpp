// Safetensors files: 8 bytes with the length of a JSON header (little endian), the header {name: {dtype, shape,
// data_offsets}, "__metadata__": {…}}, then the tensors' bytes without gaps. The header is checked completely when a
// file is opened: a file that is truncated, corrupted or foreign never gets as far as a read. Reading is by pread into
// the caller's memory, so weights are copied once and a file cut short meanwhile is an error, not a bus error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace bert_hpc::model {

/// One tensor of a file.
struct StoredTensor {
  std::string name;
  std::string dtype{};                ///< as in the header, e.g. "F32"
  std::vector<std::int64_t> shape{};  ///< empty for a scalar
  std::int64_t elements = 0;          ///< product of shape
  std::int64_t begin = 0, end = 0;    ///< its bytes in the file
};

/// "(33, 768)"; "()" for a scalar.
std::string shape_text(const std::vector<std::int64_t>& shape);

class SafetensorsFile {
 public:
  /// Opens and checks the header. Throws Error(files) naming the file, the tensor and what would be right.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  ///< in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* find(const std::string& name) const;  ///< null if there is none

  /// Reads all elements; `out` has tensor.elements. F32 as it is, F16 and BF16 widened exactly; other types are
  /// refused.
  void read(const StoredTensor& tensor, std::span<float> out) const;
  /// The same of `out.size()` elements from element `first` on.
  void read_part(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const;
  /// F64, F32, F16 or BF16.
  void read(const StoredTensor& tensor, std::span<double> out) const;
  /// I64, I32 or U8.
  void read(const StoredTensor& tensor, std::span<std::int64_t> out) const;

 private:
  void parse_header(const std::string& text, std::int64_t data_begin, std::int64_t file_size);
  void check_layout(std::int64_t data_begin, std::int64_t file_size);
  void read_bytes(const StoredTensor& tensor, std::int64_t offset, void* out, std::int64_t bytes) const;
  template <class Stored, class Out, class Convert>
  void read_as(const StoredTensor& tensor, std::int64_t begin, std::span<Out> out, Convert convert) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t> by_name_;  // indices in tensors_
  std::map<std::string, std::string> metadata_;
};

/// A tensor to write, as F32.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values{};  ///< row-major, product of shape elements; empty if they come piece by piece:
  /// The next elements from `begin` on, one or more; called until all are there, tensors in the order of their names.
  std::function<std::span<const float>(std::int64_t begin)> fetch{};

  std::int64_t elements() const;  ///< product of shape
};

}  // namespace bert_hpc::model
