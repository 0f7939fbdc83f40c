// Datasets: what they say about themselves, checked before use; whole and partial reads and writes.
#include <algorithm>
#include <cstring>
#include <memory>

#include "hdf5_detail.hpp"

namespace bert_hpc::io {

using namespace detail;

namespace {

/// Product of the extents, or −1 where it exceeds 2^53 (no file of ours can) or an extent is negative.
std::int64_t checked_product(const std::vector<std::int64_t>& extents) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0 || (product > 0 && extent > limit / product)) return -1;
    product *= extent;
  }
  return product;
}

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

/// Can every value of the file's type be held by T?
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

/// Fills extents; returns what is wrong with them, or nothing.
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

/// Fills chunk and filters; returns what is wrong with the storage, or nothing.
std::string read_storage(hid_t dataset, DatasetInfo& info) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset), close_properties);
  if (creation.id() < 0) return "its layout cannot be read";
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation.id()) > 0) return "its data lie in other files";
  info.stored_bytes = static_cast<std::int64_t>(H5Dget_storage_size(dataset));
  const int filters = H5Pget_nfilters(creation.id());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, configuration = 0;
    std::size_t values = 0;
    switch (
        H5Pget_filter2(creation.id(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &configuration)) {
      case H5Z_FILTER_DEFLATE:
        info.gzip = true;
        break;
      case H5Z_FILTER_SHUFFLE:
        info.shuffle = true;
        break;
      case H5Z_FILTER_FLETCHER32:
        info.fletcher32 = true;
        break;
      default:
        return "it is stored with a filter other than gzip, shuffle and fletcher32";
    }
  }
  if (layout != H5D_CHUNKED) return "";
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(creation.id(), H5S_MAX_RANK, chunk);
  if (rank != static_cast<int>(info.extents.size())) return "its chunks do not fit its extents";
  for (int i = 0; i < rank; ++i) info.chunk.push_back(static_cast<std::int64_t>(chunk[i]));
  const std::int64_t elements = checked_product(info.chunk);
  if (elements <= 0 || elements > max_chunk_bytes / std::max<std::int64_t>(1, info.element_bytes)) {
    return "its chunks are larger than " + std::to_string(max_chunk_bytes >> 20) + " MiB";
  }
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
}

std::int64_t Dataset::file_offset() const {
  const haddr_t offset = H5Dget_offset(handle_.id());
  if (offset == HADDR_UNDEF) fail("it has no single place in the file (" + library_reason() + ")");
  return static_cast<std::int64_t>(offset);
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

Dataset Hdf5File::create_dataset(const std::string& name, std::int64_t type, const std::vector<std::int64_t>& extents,
                                 const Storage& storage, bool extendable, bool allocate_early) {
  core::require(checked_product(extents) >= 0 && !extents.empty(), "dataset with impossible extents");
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) create_group(name.substr(0, slash));
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), close_properties);
  H5Pset_obj_track_times(creation.id(), false);
  const bool chunked = storage.chunk_rows > 0 && (extendable || checked_product(extents) > 0);
  if (chunked) {
    std::vector<hsize_t> chunk(extents.begin(), extents.end());
    chunk[0] = static_cast<hsize_t>(extendable ? storage.chunk_rows : std::min(storage.chunk_rows, extents[0]));
    H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
    if (storage.shuffle) H5Pset_shuffle(creation.id());
    if (storage.gzip > 0) H5Pset_deflate(creation.id(), static_cast<unsigned>(storage.gzip));
    if (storage.fletcher32) H5Pset_fletcher32(creation.id());
  }
  if (allocate_early) {
    // The caller fills every byte, so the library need not write zeros first. Elsewhere the fill value stays on: it is
    // what makes the unused ends of chunks the same bytes each time.
    H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  }
  const std::vector<hsize_t> shape(extents.begin(), extents.end());
  std::vector<hsize_t> largest = shape;
  if (extendable) largest[0] = H5S_UNLIMITED;
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), largest.data()), close_space);
  Dataset dataset;
  dataset.handle_ = Hdf5Handle(
      H5Dcreate2(handle_.id(), name.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), close_dataset);
  if (dataset.handle_.id() < 0) fail("create dataset", name);
  dataset.path_ = path_;
  dataset.name_ = name;
  dataset.code_ = code_;
  dataset.info_.extents = extents;
  return dataset;
}

void Hdf5File::write_whole(const Dataset& dataset, std::int64_t type, const void* data) {
  if (dataset.info_.elements() == 0) return;
  // Chunks are kept in memory until the dataset closes; flushed here, their failure can still be told.
  const bool good = H5Dwrite(dataset.handle_.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0 &&
                    H5Dflush(dataset.handle_.id()) >= 0;
  if (!good) fail_write(dataset.name_);
}

template <Hdf5Element T>
void Hdf5File::write_elements(const std::string& name, std::span<const T> data,
                              const std::vector<std::int64_t>& extents, const Storage& storage) {
  const auto count = static_cast<std::int64_t>(data.size());
  const std::vector<std::int64_t> shape = extents.empty() ? std::vector{count} : extents;
  core::require(checked_product(shape) == count, "dataset whose extents do not match its data");
  const Dataset dataset = create_dataset(name, memory_type<T>(), shape, storage, false, false);
  write_whole(dataset, memory_type<T>(), data.data());
}

void Hdf5File::write_text(const std::string& name, const std::vector<std::string>& data) {
  const Hdf5Handle type = text_type(0);
  const Dataset dataset = create_dataset(name, type.id(), {static_cast<std::int64_t>(data.size())}, {}, false, false);
  std::vector<const char*> pointers;
  for (const std::string& text : data) pointers.push_back(text.c_str());
  write_whole(dataset, type.id(), pointers.data());
}

void Hdf5File::write_fixed_text(const std::string& name, const std::vector<std::string>& data, const Storage& storage) {
  std::size_t width = 1;
  for (const std::string& text : data) width = std::max(width, text.size());
  std::string fields(width * data.size(), '\0');
  for (std::size_t i = 0; i < data.size(); ++i) std::copy(data[i].begin(), data[i].end(), fields.begin() + i * width);
  const Hdf5Handle type = text_type(width);
  const Dataset dataset =
      create_dataset(name, type.id(), {static_cast<std::int64_t>(data.size())}, storage, false, false);
  write_whole(dataset, type.id(), fields.data());
}

template <Hdf5Element T>
std::int64_t Hdf5File::allocate(const std::string& name, const std::vector<std::int64_t>& extents) {
  return create_dataset(name, memory_type<T>(), extents, {}, false, true).file_offset();
}

template <Hdf5Element T>
std::vector<T> Hdf5File::read(const std::string& name, std::int64_t max_elements) const {
  const Dataset source = dataset(name);
  source.expect<T>(static_cast<int>(source.info().extents.size()));
  if (source.info().elements() > max_elements) {
    source.fail("it claims " + std::to_string(source.info().elements()) + " elements, more than the " +
                std::to_string(max_elements) + " expected at most");
  }
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
  const auto count = static_cast<std::size_t>(info.elements());
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  const Hdf5Handle file_type(H5Dget_type(source.handle_.id()), close_type);
  if (info.variable_length) {
    const Hdf5Handle space(H5Dget_space(source.handle_.id()), close_space);
    std::vector<char*> pointers(count, nullptr);
    const bool good = H5Dread(source.handle_.id(), file_type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) >= 0;
    const std::string reason = good ? "" : library_reason();
    for (std::size_t i = 0; good && i < count; ++i) texts[i] = pointers[i] == nullptr ? "" : pointers[i];
    H5Dvlen_reclaim(file_type.id(), space.id(), H5P_DEFAULT, pointers.data());
    if (!good) source.fail(reason);
    return texts;
  }
  const auto width = static_cast<std::size_t>(info.element_bytes);
  if (width > (std::size_t{1} << 31) / count) source.fail("it claims more than 2 GiB of text");
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

#define BERT_HPC_FOR_ELEMENT(T)                                                                                       \
  template void Dataset::expect<T>(int) const;                                                                        \
  template void Dataset::read_elements<T>(std::int64_t, std::span<T>) const;                                          \
  template void Hdf5File::write_elements<T>(const std::string&, std::span<const T>, const std::vector<std::int64_t>&, \
                                            const Storage&);                                                          \
  template std::int64_t Hdf5File::allocate<T>(const std::string&, const std::vector<std::int64_t>&);                  \
  template std::vector<T> Hdf5File::read<T>(const std::string&, std::int64_t) const;
BERT_HPC_FOR_ELEMENT(std::int32_t)
BERT_HPC_FOR_ELEMENT(std::int64_t)
BERT_HPC_FOR_ELEMENT(std::uint8_t)
BERT_HPC_FOR_ELEMENT(float)
BERT_HPC_FOR_ELEMENT(double)
#undef BERT_HPC_FOR_ELEMENT

}  // namespace bert_hpc::io
