// HDF5 files with RAII handles, typed reads and writes, and errors that name file, dataset and reason. Only
// src/io/hdf5/ includes hdf5.h; ids are plain 64-bit integers here.
//
// Files use the library's 1.10 format, which checksums its metadata, and hold no time stamps, so that the same data
// gives the same bytes. The reader validates a file before it trusts it: kinds of links, storage, chunk sizes, types
// and extents; it rejects filter plug-ins, links and storage outside the file.
//
// HDF5 is not thread-safe here: only one thread of a process at a time may call it (the I/O thread).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

namespace detail {
struct FileMemory;
}

/// Element types that datasets can be written from and read into.
template <class T>
concept Hdf5Element = std::same_as<T, std::int8_t> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> || std::same_as<T, float> ||
    std::same_as<T, double>;

/// A contiguous range of such elements: vector, span, array.
template <class R>
concept Hdf5Range = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Hdf5Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;

/// Largest chunk (uncompressed bytes) that a file may require in memory.
inline constexpr std::int64_t max_chunk_bytes = std::int64_t{16} << 20;

/// An owning HDF5 id. Closing twice is harmless; the destructor never throws.
class Hdf5Handle {
 public:
  using Close = int (*)(std::int64_t);
  Hdf5Handle() = default;
  Hdf5Handle(std::int64_t id, Close close) : id_(id), close_(close) {}
  ~Hdf5Handle() { reset(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;

  std::int64_t id() const { return id_; }
  bool reset() noexcept;  ///< closes; false if the library reports an error

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

/// Storage layout of a dataset. With chunk_rows = 0 it is contiguous and unfiltered.
struct Storage {
  std::int64_t chunk_rows = 0;  ///< rows (entries of the first dimension) in a chunk
  int gzip = 0;                 ///< level 1 … 9, 0 = none
  bool shuffle = false;         ///< bytes transposed before compression
  bool fletcher32 = false;      ///< a checksum per chunk, verified on reading
};

enum class Filter { gzip, shuffle, fletcher32 };

/// Metadata of a dataset.
struct DatasetInfo {
  enum class TypeClass { integer, real, text, other };
  TypeClass type_class = TypeClass::other;
  std::int64_t element_bytes = 0;     ///< of one element; for variable-length text, of its reference
  bool is_signed = false;             ///< integers
  bool variable_length = false;       ///< text
  std::vector<std::int64_t> extents;  ///< empty for a scalar
  std::vector<std::int64_t> chunk;    ///< extents of a chunk; empty when not chunked
  std::int64_t stored_bytes = 0;      ///< in the file
  std::vector<Filter> filters;        ///< of chunks, in the order in which the writer applies them

  std::int64_t elements() const;   ///< product of the extents (checked for overflow when the dataset is opened)
  std::string type_name() const;   ///< e.g. "int32", "float64", "text"
  std::string shape_text() const;  ///< e.g. "(3, 128)"
};

/// An open dataset; keep it for repeated reads. Its file must outlive it.
class Dataset {
 public:
  const DatasetInfo& info() const { return info_; }
  const std::string& name() const { return name_; }

  /// Reads rows [first_row, first_row + out.size() / elements per row). Types may differ only where every value is
  /// preserved: the same class, and the file's integers or reals no wider than T's. Throws on any other type, on ranges
  /// outside the dataset, and on damaged data.
  template <Hdf5Range R>
  void read_rows(std::int64_t first_row, R&& out) const {
    using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
    read_elements<T>(first_row, std::span<T>(std::ranges::data(out), std::ranges::size(out)));
  }

  /// Throws unless the dataset has this many dimensions and can be read into T without loss.
  template <Hdf5Element T>
  void expect(int rank) const;

  /// Throws if the dataset claims more data than its stored bytes can hold. Call it before allocating memory for it.
  void require_stored() const;

  /// Bytes of data that were read from the file: of a filtered dataset whole chunks.
  std::int64_t bytes_read() const { return bytes_read_; }

  /// File offset in bytes of a contiguous dataset's first byte, for payloads that are read or written with pread and
  /// pwrite. Throws if the dataset is chunked or not allocated.
  std::int64_t file_offset() const;

 private:
  friend class Hdf5File;
  template <Hdf5Element T>
  friend class Appender;
  template <Hdf5Element T>
  void read_elements(std::int64_t first_row, std::span<T> out) const;
  void read_filtered(std::int64_t first_row, std::int64_t rows, std::int64_t memory_type, std::size_t memory_bytes,
                     void* out) const;
  void load_chunk(std::int64_t first, std::int64_t column) const;
  [[noreturn]] void fail(const std::string& what) const;

  Hdf5Handle handle_;
  std::string path_, name_;
  core::ExitCode code_ = core::ExitCode::files;
  DatasetInfo info_;
  mutable std::int64_t bytes_read_ = 0;
  mutable struct {
    std::int64_t first_row = -1, first_column = 0;  ///< of the chunk last read; row −1: none
    std::vector<unsigned char> bytes, spare;
  } chunk_;
};

class Hdf5File {
 public:
  /// `code` is the exit code of every error of this file: data for shards, files for checkpoints and results.
  static Hdf5File open_read(const std::string& path, core::ExitCode code);

  /// Creates the file, replacing any. user_block: bytes left free at its beginning; 0, or a power of two from 512.
  static Hdf5File create(const std::string& path, core::ExitCode code, std::int64_t user_block = 0);

  /// A file in memory only; close_to_bytes() returns its content. For small files that are written often: a full disk
  /// then fails in our own write and never inside the library. `path` is for messages.
  static Hdf5File create_in_memory(const std::string& path, core::ExitCode code);

  Hdf5File(Hdf5File&&) = default;
  Hdf5File& operator=(Hdf5File&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    std::swap(code_, other.code_);
    return *this;
  }
  ~Hdf5File() { abandon(); }  ///< closes without reporting errors; call close() to detect failed writes

  const std::string& path() const { return path_; }
  core::ExitCode code() const { return code_; }
  void flush();
  void close();                             ///< invalidates open datasets
  std::vector<std::byte> close_to_bytes();  ///< closes a file made by create_in_memory and returns its bytes

  bool exists(const std::string& name) const;  ///< a group or dataset of this file, e.g. "steps/loss"
  void create_group(const std::string& name);  ///< with its parents; no effect if it exists
  std::vector<std::string> names(const std::string& group) const;  ///< members, sorted
  DatasetInfo info(const std::string& name) const { return dataset(name).info(); }
  Dataset dataset(const std::string& name) const;

  /// Writes a whole dataset and makes its parent groups. extents: empty means one dimension; otherwise their product
  /// must equal the number of elements.
  template <Hdf5Range R>
  void write(const std::string& name, const R& data, const std::vector<std::int64_t>& extents = {},
             const Storage& storage = {}) {
    using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
    write_elements<T>(name, std::span<const T>(std::ranges::data(data), std::ranges::size(data)), extents, storage);
  }
  /// One dimension of UTF-8 text of any length.
  void write_text(const std::string& name, const std::vector<std::string>& data);
  /// One dimension of UTF-8 text in zero-padded fields as wide as the longest entry.
  void write_fixed_text(const std::string& name, const std::vector<std::string>& data, const Storage& storage = {});

  /// Makes an allocated, contiguous dataset and returns its file_offset(); the caller fills it with pwrite after
  /// close().
  template <Hdf5Element T>
  std::int64_t allocate(const std::string& name, const std::vector<std::int64_t>& extents);

  /// Reads a whole dataset of at most max_elements elements, row-major.
  template <Hdf5Element T>
  std::vector<T> read(const std::string& name, std::int64_t max_elements) const;
  /// Text of fixed or variable length; at most max_elements entries.
  std::vector<std::string> read_text(const std::string& name, std::int64_t max_elements) const;

  // Attributes of a group or dataset; "/" is the root. Writing replaces an existing attribute. Reading throws if the
  // attribute is missing, has another type, or has more than max_elements entries.
  void write_attribute(const std::string& object, const std::string& name, const std::string& value);
  void write_attribute(const std::string& object, const std::string& name, const char* value) {
    write_attribute(object, name, std::string(value));
  }
  void write_attribute(const std::string& object, const std::string& name, std::int64_t value);
  void write_attribute(const std::string& object, const std::string& name, double value);
  void write_attribute(const std::string& object, const std::string& name, const std::vector<std::string>& values);
  void write_attribute(const std::string& object, const std::string& name, const std::vector<std::int64_t>& values);
  void write_attribute(const std::string& object, const std::string& name, const std::vector<double>& values);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t integer_attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> text_attributes(const std::string& object, const std::string& name,
                                           std::int64_t max_elements = 1 << 20) const;
  std::vector<std::int64_t> integer_attributes(const std::string& object, const std::string& name,
                                               std::int64_t max_elements = 1 << 20) const;
  std::vector<double> real_attributes(const std::string& object, const std::string& name,
                                      std::int64_t max_elements = 1 << 20) const;

 private:
  template <Hdf5Element T>
  friend class Appender;
  Hdf5File(Hdf5Handle handle, std::string path, core::ExitCode code)
      : handle_(std::move(handle)), path_(std::move(path)), code_(code) {}
  template <Hdf5Element T>
  void write_elements(const std::string& name, std::span<const T> data, const std::vector<std::int64_t>& extents,
                      const Storage& storage);
  Dataset create_dataset(const std::string& name, std::int64_t type, const std::vector<std::int64_t>& extents,
                         const Storage& storage, bool extendable, bool allocate_early);
  void write_whole(const Dataset& dataset, std::int64_t type, const void* data);
  Hdf5Handle open_object(const std::string& object) const;
  Hdf5Handle open_attribute(const std::string& object, const std::string& name) const;
  void replace_attribute(const std::string& object, const std::string& name, std::int64_t type, std::int64_t count,
                         const void* data);
  template <class T>
  std::vector<T> numeric_attributes(const std::string& object, const std::string& name,
                                    std::int64_t max_elements) const;
  [[noreturn]] void fail(const std::string& doing, const std::string& object) const;
  [[noreturn]] void fail_write(const std::string& object);
  void abandon() noexcept;

  std::shared_ptr<detail::FileMemory> memory_;  ///< of a file made in memory; outlives handle_, whose closing fills it
  Hdf5Handle handle_;
  std::string path_;
  core::ExitCode code_ = core::ExitCode::files;
};

/// Writes a dataset that grows: buffers rows in memory and writes whole chunks.
template <Hdf5Element T>
class Appender {
 public:
  /// columns = 0: one dimension (rows); otherwise (rows, columns). storage.chunk_rows must be positive. `file` must
  /// outlive the appender.
  Appender(Hdf5File& file, const std::string& name, const Storage& storage, std::int64_t columns = 0);

  void append(std::span<const T> elements);  ///< whole rows
  void append(T element) { append(std::span<const T>(&element, 1)); }
  void finish();              ///< writes the buffered rows; without it the last rows are lost
  std::int64_t rows() const;  ///< appended so far

 private:
  void write_gathered();
  void write_block(std::span<const T> elements);
  [[noreturn]] void fail_write();

  Dataset dataset_;
  std::int64_t row_elements_ = 1;
  std::int64_t written_rows_ = 0;
  std::size_t block_elements_ = 0;
  std::vector<T> block_;
};

/// Version of the HDF5 library at run time, e.g. "1.10.8".
std::string hdf5_version();

}  // namespace bert_hpc::io
