// Datasets: metadata, validated before use; whole and partial reads.
#include <algorithm>
#include <cstring>

#include "detail.hpp"

namespace bert_hpc::io {

using namespace detail;

namespace {

std::int64_t row_elements_of(const std::vector<std::int64_t>& extents) {
  return extents.empty() ? 1 : checked_product({extents.begin() + 1, extents.end()});
}

std::string shape_of(const std::vector<std::int64_t>& extents) {
  std::string text = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(extents[i]);
  return text + ")";
}

template <Hdf5Element T>
std::string name_of() {
  DatasetInfo info;
  info.type_class = std::integral<T> ? DatasetInfo::TypeClass::integer : DatasetInfo::TypeClass::real;
  info.is_signed = std::is_signed_v<T>;
  info.element_bytes = sizeof(T);
  return info.type_name();
}

/// True if T can represent every value of the file's type.
template <Hdf5Element T>
bool is_lossless(const DatasetInfo& info) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  if (info.type_class == DatasetInfo::TypeClass::real) return std::floating_point<T> && info.element_bytes <= bytes;
  if (info.type_class != DatasetInfo::TypeClass::integer || !std::integral<T>) return false;
  if (info.is_signed) return std::is_signed_v<T> && info.element_bytes <= bytes;
  return std::is_signed_v<T> ? info.element_bytes < bytes : info.element_bytes <= bytes;
}

void read_type(hid_t dataset, DatasetInfo& info) {
  const Hdf5Handle type(H5Dget_type(dataset), close_type);
  info.element_bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
  if (!detail::is_sound_type(type.id())) return;
  switch (H5Tget_class(type.id())) {
    case H5T_INTEGER:
      info.type_class = DatasetInfo::TypeClass::integer;
      info.is_signed = H5Tget_sign(type.id()) != H5T_SGN_NONE;
      break;
    case H5T_FLOAT:
      info.type_class = DatasetInfo::TypeClass::real;
      break;
    case H5T_STRING:
      info.type_class = DatasetInfo::TypeClass::text;
      info.variable_length = H5Tis_variable_str(type.id()) > 0;
      break;
    default:
      break;
  }
}

/// Fills extents; returns a description of the problem, or "".
std::string read_extents(hid_t dataset, DatasetInfo& info) {
  const Hdf5Handle space(H5Dget_space(dataset), close_space);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 0) return "its extents cannot be read";
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) return "it has no data";
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  for (const hsize_t extent : extents) {
    info.extents.push_back(extent > (hsize_t{1} << 62) ? -1 : static_cast<std::int64_t>(extent));
  }
  if (checked_product(info.extents) < 0) return "its claimed extents are beyond any real size";
  return "";
}

/// Size in bytes of the file that contains a dataset.
std::int64_t file_bytes(hid_t dataset) {
  const Hdf5Handle file(H5Iget_file_id(dataset), close_file);
  hsize_t bytes = 0;
  return H5Fget_filesize(file.id(), &bytes) < 0 ? 0 : static_cast<std::int64_t>(bytes);
}

/// Fills filters; returns a description of the problem, or "".
std::string read_filters(hid_t creation, DatasetInfo& info) {
  const int filters = H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, configuration = 0;
    std::size_t values = 0;
    const H5Z_filter_t number =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &configuration);
    Filter filter{};
    if (number == H5Z_FILTER_DEFLATE) {
      filter = Filter::gzip;
    } else if (number == H5Z_FILTER_SHUFFLE) {
      filter = Filter::shuffle;
    } else if (number == H5Z_FILTER_FLETCHER32) {
      filter = Filter::fletcher32;
    } else {
      return "it is stored with a filter other than gzip, shuffle and fletcher32";
    }
    if (std::count(info.filters.begin(), info.filters.end(), filter) > 0) return "it is stored with a filter twice";
    info.filters.push_back(filter);
  }
  return "";
}

/// Fills chunk and filters; returns a description of the problem, or "".
std::string read_storage(hid_t dataset, DatasetInfo& info) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset), close_properties);
  if (creation.id() < 0) return "its layout cannot be read";
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation.id()) > 0) return "its data lie in other files";
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (stored > static_cast<hsize_t>(file_bytes(dataset))) return "it claims to store more bytes than its file has";
  info.stored_bytes = static_cast<std::int64_t>(stored);
  if (std::string problem = read_filters(creation.id(), info); !problem.empty()) return problem;
  if (layout != H5D_CHUNKED) return "";
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(creation.id(), H5S_MAX_RANK, chunk);
  if (rank != static_cast<int>(info.extents.size())) return "its chunks do not fit its extents";
  for (int i = 0; i < rank; ++i) info.chunk.push_back(static_cast<std::int64_t>(chunk[i]));
  const std::int64_t elements = checked_product(info.chunk);
  if (elements <= 0 || elements > max_chunk_bytes / std::max<std::int64_t>(1, info.element_bytes)) {
    return "its chunks are larger than " + std::to_string(max_chunk_bytes >> 20) + " MiB";
  }
  unsigned options = 0;
  if (H5Pget_chunk_opts(creation.id(), &options) < 0 || options != 0) return "its last chunk is stored in another way";
  return "";
}

}  // namespace

std::int64_t DatasetInfo::elements() const {
  return checked_product(extents);
}

std::string DatasetInfo::type_name() const {
  const std::string bits = std::to_string(8 * element_bytes);
  switch (type_class) {
    case TypeClass::integer:
      return (is_signed ? "int" : "uint") + bits;
    case TypeClass::real:
      return "float" + bits;
    case TypeClass::text:
      return "text";
    default:
      return "another type";
  }
}

std::string DatasetInfo::shape_text() const {
  return shape_of(extents);
}

void Dataset::fail(const std::string& what) const {
  detail::fail(code_, "read", name_, path_, what);
}

template <Hdf5Element T>
void Dataset::expect(int rank) const {
  if (!is_lossless<T>(info_)) fail("it holds " + info_.type_name() + ", needed is " + name_of<T>());
  if (static_cast<int>(info_.extents.size()) != rank) {
    fail("its shape is " + info_.shape_text() + ", needed are " + std::to_string(rank) + " dimension(s)");
  }
}

void Dataset::require_stored() const {
  // Deflate compresses no data by more than a factor of about 1032.
  const bool compressed = std::count(info_.filters.begin(), info_.filters.end(), Filter::gzip) > 0;
  const std::int64_t most = compressed ? 1100 : 1;
  if (info_.elements() == 0 ||
      info_.elements() <= info_.stored_bytes * most / std::max<std::int64_t>(1, info_.element_bytes))
    return;
  fail("it claims " + std::to_string(info_.elements()) + " entries but stores only " +
       std::to_string(info_.stored_bytes) + " bytes");
}

template <Hdf5Element T>
void Dataset::read_elements(std::int64_t first_row, std::span<T> out) const {
  expect<T>(static_cast<int>(info_.extents.size()));
  const std::int64_t row_elements = row_elements_of(info_.extents);
  const std::int64_t all_rows = info_.extents.empty() ? 1 : info_.extents[0];
  const auto count = static_cast<std::int64_t>(out.size());
  if (count == 0) return;
  if (row_elements == 0 || count % row_elements != 0) {
    fail(std::to_string(count) + " elements are not whole rows of its shape " + info_.shape_text());
  }
  const std::int64_t rows = count / row_elements;
  if (first_row < 0 || rows > all_rows || first_row > all_rows - rows) {
    fail("rows " + std::to_string(first_row) + " to " + std::to_string(first_row + rows) + " are outside its shape " +
         info_.shape_text());
  }
  if (!info_.filters.empty() && !info_.chunk.empty()) {
    return read_filtered(first_row, rows, memory_type<T>(), sizeof(T), out.data());
  }
  const Hdf5Handle file_space(H5Dget_space(handle_.id()), close_space);
  if (!info_.extents.empty() && rows != all_rows) {
    std::vector<hsize_t> start(info_.extents.size(), 0), shape(info_.extents.begin(), info_.extents.end());
    start[0] = static_cast<hsize_t>(first_row);
    shape[0] = static_cast<hsize_t>(rows);
    H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr);
  }
  const auto elements = static_cast<hsize_t>(count);
  const Hdf5Handle memory_space(H5Screate_simple(1, &elements, nullptr), close_space);
  if (H5Dread(handle_.id(), memory_type<T>(), memory_space.id(), file_space.id(), H5P_DEFAULT, out.data()) < 0) {
    fail(library_reason());
  }
  bytes_read_ += count * info_.element_bytes;
}

Dataset Hdf5File::dataset(const std::string& name) const {
  const auto damaged = [&](const std::string& what) { detail::fail(code_, "read", name, path_, what); };
  if (!exists(name)) damaged("the file has no such dataset");
  Dataset dataset;
  dataset.handle_ = Hdf5Handle(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), close_dataset);
  if (dataset.handle_.id() < 0) damaged(library_reason());
  dataset.path_ = path_;
  dataset.name_ = name;
  dataset.code_ = code_;
  read_type(dataset.handle_.id(), dataset.info_);
  std::string problem = read_extents(dataset.handle_.id(), dataset.info_);
  if (problem.empty()) problem = read_storage(dataset.handle_.id(), dataset.info_);
  if (!problem.empty()) damaged(problem);
  return dataset;
}

template <Hdf5Element T>
std::vector<T> Hdf5File::read(const std::string& name, std::int64_t max_elements) const {
  const Dataset source = dataset(name);
  source.expect<T>(static_cast<int>(source.info().extents.size()));
  if (source.info().elements() > max_elements) {
    source.fail("it claims " + std::to_string(source.info().elements()) + " elements, more than the " +
                std::to_string(max_elements) + " expected at most");
  }
  source.require_stored();
  std::vector<T> data(static_cast<std::size_t>(source.info().elements()));
  source.read_rows(0, data);
  return data;
}

std::vector<std::string> Hdf5File::read_text(const std::string& name, std::int64_t max_elements) const {
  const Dataset source = dataset(name);
  const DatasetInfo& info = source.info();
  if (info.type_class != DatasetInfo::TypeClass::text) source.fail("it holds " + info.type_name() + ", needed is text");
  if (info.elements() > max_elements) {
    source.fail("it claims " + std::to_string(info.elements()) + " entries, more than the " +
                std::to_string(max_elements) + " expected at most");
  }
  if (!info.filters.empty()) source.fail("it is text with filters, which none of these files has");
  source.require_stored();
  const auto count = static_cast<std::size_t>(info.elements());
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  const Hdf5Handle file_type(H5Dget_type(source.handle_.id()), close_type);
  if (info.variable_length) {
    const Hdf5Handle space(H5Dget_space(source.handle_.id()), close_space);
    // Many references to one long text could require too much memory.
    hsize_t bytes = 0;
    if (H5Dvlen_get_buf_size(source.handle_.id(), file_type.id(), space.id(), &bytes) < 0)
      source.fail(library_reason());
    if (bytes > static_cast<hsize_t>(file_bytes(source.handle_.id()))) source.fail("its text is longer than its file");
    std::vector<char*> pointers(count, nullptr);
    const bool good = H5Dread(source.handle_.id(), file_type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) >= 0;
    const std::string reason = good ? "" : library_reason();
    for (std::size_t i = 0; good && i < count; ++i) texts[i] = pointers[i] == nullptr ? "" : pointers[i];
    H5Dvlen_reclaim(file_type.id(), space.id(), H5P_DEFAULT, pointers.data());
    if (!good) source.fail(reason);
    return texts;
  }
  const auto width = static_cast<std::size_t>(info.element_bytes);
  std::vector<char> fields(width * count);
  if (H5Dread(source.handle_.id(), file_type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, fields.data()) < 0) {
    source.fail(library_reason());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const char* field = fields.data() + i * width;
    texts[i].assign(field, strnlen(field, width));
  }
  return texts;
}

#define BERT_HPC_FOR_ELEMENT(T)                                              \
  template void Dataset::expect<T>(int) const;                               \
  template void Dataset::read_elements<T>(std::int64_t, std::span<T>) const; \
  template std::vector<T> Hdf5File::read<T>(const std::string&, std::int64_t) const;
BERT_HPC_FOR_ELEMENT(std::int8_t)
BERT_HPC_FOR_ELEMENT(std::int32_t)
BERT_HPC_FOR_ELEMENT(std::int64_t)
BERT_HPC_FOR_ELEMENT(std::uint8_t)
BERT_HPC_FOR_ELEMENT(std::uint16_t)
BERT_HPC_FOR_ELEMENT(float)
BERT_HPC_FOR_ELEMENT(double)
#undef BERT_HPC_FOR_ELEMENT

}  // namespace bert_hpc::io
