// Creates and writes datasets.
#include <algorithm>

#include "detail.hpp"

namespace bert_hpc::io {

using namespace detail;

namespace {

/// Closes a dataset that grows: its last chunks may still be in the library, which cannot close it where they cannot be
/// written.
int close_growing_dataset(std::int64_t id) {
  if (H5Dflush(id) < 0) divert_to_memory(id);
  return H5Dclose(id);
}

}  // namespace

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
    // The caller fills every byte, so the library need not write zeros first. Elsewhere the fill value stays enabled:
    // it makes the unused ends of chunks deterministic.
    H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  }
  const std::vector<hsize_t> shape(extents.begin(), extents.end());
  std::vector<hsize_t> largest = shape;
  if (extendable) largest[0] = H5S_UNLIMITED;
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), largest.data()), close_space);
  Dataset dataset;
  dataset.handle_ =
      Hdf5Handle(H5Dcreate2(handle_.id(), name.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                 extendable ? close_growing_dataset : close_dataset);
  if (dataset.handle_.id() < 0) fail("create dataset", name);
  dataset.path_ = path_;
  dataset.name_ = name;
  dataset.code_ = code_;
  dataset.info_.extents = extents;
  return dataset;
}

void Hdf5File::write_whole(const Dataset& dataset, std::int64_t type, const void* data) {
  if (dataset.info_.elements() == 0) return;
  // The library caches chunks until the dataset closes; flushing here allows a failure to be reported.
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

#define BERT_HPC_FOR_ELEMENT(T)                                                                                       \
  template void Hdf5File::write_elements<T>(const std::string&, std::span<const T>, const std::vector<std::int64_t>&, \
                                            const Storage&);                                                          \
  template std::int64_t Hdf5File::allocate<T>(const std::string&, const std::vector<std::int64_t>&);
BERT_HPC_FOR_ELEMENT(std::int8_t)
BERT_HPC_FOR_ELEMENT(std::int32_t)
BERT_HPC_FOR_ELEMENT(std::int64_t)
BERT_HPC_FOR_ELEMENT(std::uint8_t)
BERT_HPC_FOR_ELEMENT(std::uint16_t)
BERT_HPC_FOR_ELEMENT(float)
BERT_HPC_FOR_ELEMENT(double)
#undef BERT_HPC_FOR_ELEMENT

}  // namespace bert_hpc::io
