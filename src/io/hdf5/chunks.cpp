// Shuffled, compressed or checksummed chunks are decoded here and not by the library, which inflates a chunk to any
// size and then assumes that it has the size of a chunk. Here a chunk takes as much memory as the dataset's metadata
// states, and must give exactly that many bytes. Filters: HDF5 File Format Specification 3.0, IV.A.2.l; Fletcher, "An
// arithmetic checksum for serial transmissions" (1982), with 32 bits over words of two bytes, high byte first.
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "detail.hpp"

namespace bert_hpc::io {

using namespace detail;

namespace {

using Bytes = std::vector<unsigned char>;
constexpr std::size_t checksum_bytes = 4;

/// Reduces a sum modulo 65535 like repeated addition of the bits above 16: a nonzero multiple gives 65535, not 0. Sums
/// may be reduced once, at their end.
std::uint32_t folded(std::uint64_t sum) {
  const std::uint64_t rest = sum % 65535;
  return static_cast<std::uint32_t>(rest == 0 && sum != 0 ? 65535 : rest);
}

std::uint32_t fletcher32(const unsigned char* data, std::size_t bytes) {
  // A chunk stores at most 18 MiB (load_chunk()), of which `second` is less than 2^62.
  static_assert(max_chunk_bytes <= std::int64_t{16} << 20);
  std::uint64_t first = 0, second = 0;
  std::size_t i = 0;
  for (; i + 1 < bytes; i += 2) {
    first += static_cast<unsigned>(data[i]) << 8 | data[i + 1];
    second += first;
  }
  if (i < bytes) {
    first += static_cast<unsigned>(data[i]) << 8;
    second += first;
  }
  return folded(second) << 16 | folded(first);
}

/// Verifies and strips the trailing checksum; false if it does not match.
bool check_sum(Bytes& data) {
  if (data.size() < checksum_bytes) return false;
  const std::size_t bytes = data.size() - checksum_bytes;
  const unsigned char* end = data.data() + bytes;
  const std::uint32_t stored =
      end[0] | std::uint32_t{end[1]} << 8 | std::uint32_t{end[2]} << 16 | std::uint32_t{end[3]} << 24;
  if (stored != fletcher32(data.data(), bytes)) return false;
  data.resize(bytes);
  return true;
}

/// Inflates; false if the data is not a valid stream or gives more than `most` bytes.
bool inflate(Bytes& data, Bytes& spare, std::size_t most) {
  spare.resize(most);
  uLongf bytes = most;
  if (uncompress(spare.data(), &bytes, data.data(), static_cast<uLong>(data.size())) != Z_OK) return false;
  spare.resize(bytes);
  data.swap(spare);
  return true;
}

/// `parts`: of each of `count` elements the lowest byte, then of each the next one, and so on.
template <class Element>
void join_bytes(const unsigned char* parts, std::size_t count, unsigned char* out) {
  for (std::size_t e = 0; e < count; ++e) {
    Element element = 0;
    for (std::size_t b = 0; b < sizeof element; ++b) element |= Element{parts[b * count + e]} << (8 * b);
    std::memcpy(out + e * sizeof element, &element, sizeof element);
  }
}

/// Undoes the shuffle: first all elements' first bytes, then all second bytes …; a trailing partial element stays at
/// the end.
void unshuffle(Bytes& data, Bytes& spare, std::size_t element_bytes) {
  const std::size_t elements = data.size() / element_bytes;
  spare.resize(data.size());
  data.swap(spare);
  std::copy(spare.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes), spare.end(),
            data.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes));
  constexpr bool lowest_first = std::endian::native == std::endian::little;
  if (lowest_first && element_bytes == 4) return join_bytes<std::uint32_t>(spare.data(), elements, data.data());
  if (lowest_first && element_bytes == 8) return join_bytes<std::uint64_t>(spare.data(), elements, data.data());
  for (std::size_t b = 0; b < element_bytes; ++b) {
    const unsigned char* from = spare.data() + b * elements;
    for (std::size_t e = 0; e < elements; ++e) data[e * element_bytes + b] = from[e];
  }
}

}  // namespace

/// Loads the chunk that begins with this row, and this element of it, into chunk_.
void Dataset::load_chunk(std::int64_t first, std::int64_t column) const {
  if (chunk_.first_row == first && chunk_.first_column == column) return;
  chunk_.first_row = -1;
  std::vector<hsize_t> offset(info_.chunk.size(), 0);
  offset[0] = static_cast<hsize_t>(first);
  if (column > 0) offset[1] = static_cast<hsize_t>(column);
  std::int64_t elements = 1;
  for (const std::int64_t extent : info_.chunk) elements *= extent;
  const auto bytes = static_cast<std::size_t>(elements * info_.element_bytes);
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(handle_.id(), offset.data(), &stored) < 0) fail(library_reason());
  if (stored == 0) fail("a chunk of it was never written");
  // A compressor keeps data unchanged if compression makes it larger.
  if (stored > bytes + bytes / 8 + 64) fail("a chunk of it stores more than it holds");
  chunk_.bytes.resize(static_cast<std::size_t>(stored));
  std::uint32_t left_out = 0;
  if (H5Dread_chunk(handle_.id(), H5P_DEFAULT, offset.data(), &left_out, chunk_.bytes.data()) < 0)
    fail(library_reason());
  bytes_read_ += static_cast<std::int64_t>(stored);
  for (std::size_t i = info_.filters.size(); i-- > 0;) {
    if ((left_out >> i & 1) != 0) continue;
    if (info_.filters[i] == Filter::fletcher32) {
      if (!check_sum(chunk_.bytes)) fail("a chunk of it does not match its checksum");
    } else if (info_.filters[i] == Filter::gzip) {
      if (!inflate(chunk_.bytes, chunk_.spare, bytes + checksum_bytes))
        fail("a chunk of it cannot be inflated to its size");
    } else if (info_.element_bytes > 1) {
      unshuffle(chunk_.bytes, chunk_.spare, static_cast<std::size_t>(info_.element_bytes));
    }
  }
  if (chunk_.bytes.size() != bytes) fail("a chunk of it does not have its size");
  chunk_.first_row = first;
  chunk_.first_column = column;
}

/// Reads rows [first_row, first_row + rows), which must be in range, as elements of type `memory_type`.
void Dataset::read_filtered(std::int64_t first_row, std::int64_t rows, std::int64_t memory_type,
                            std::size_t memory_bytes, void* out) const {
  const bool whole_rows = std::equal(info_.chunk.begin() + 1, info_.chunk.end(), info_.extents.begin() + 1);
  if (!whole_rows && info_.chunk.size() != 2) fail("its chunks do not hold whole rows");
  const Hdf5Handle file_type(H5Dget_type(handle_.id()), close_type);
  const bool same = H5Tequal(file_type.id(), memory_type) > 0;
  const std::int64_t row_elements = std::max<std::int64_t>(1, info_.elements() / info_.extents[0]);
  const std::int64_t chunk_columns = whole_rows ? row_elements : info_.chunk[1];
  const auto bytes_of = [this](std::int64_t elements) {
    return static_cast<std::size_t>(elements * info_.element_bytes);
  };
  auto* to = static_cast<unsigned char*>(out);
  for (std::int64_t row = first_row; row < first_row + rows;) {
    const std::int64_t begin = row / info_.chunk[0] * info_.chunk[0];
    const std::int64_t count = std::min(begin + info_.chunk[0], first_row + rows) - row;
    for (std::int64_t column = 0; column < row_elements; column += chunk_columns) {
      load_chunk(begin, column);
      const std::int64_t columns = std::min(chunk_columns, row_elements - column);
      const unsigned char* from = chunk_.bytes.data() + bytes_of((row - begin) * chunk_columns);
      if (whole_rows) {
        std::memcpy(to, from, bytes_of(count * row_elements));
        continue;
      }
      for (std::int64_t r = 0; r < count; ++r) {
        std::memcpy(to + bytes_of(r * row_elements + column), from + bytes_of(r * chunk_columns), bytes_of(columns));
      }
    }
    const auto elements = static_cast<std::size_t>(count * row_elements);
    // In place: no element of the file is wider than one in memory.
    if (!same && H5Tconvert(file_type.id(), memory_type, elements, to, nullptr, H5P_DEFAULT) < 0)
      fail(library_reason());
    to += elements * memory_bytes;
    row += count;
  }
}

}  // namespace bert_hpc::io
