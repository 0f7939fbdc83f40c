// Appender: a dataset that grows. It buffers elements in blocks of whole chunks, so that each chunk is compressed and
// written once.
#include <algorithm>

#include "detail.hpp"

namespace bert_hpc::io {

using namespace detail;

template <Hdf5Element T>
Appender<T>::Appender(Hdf5File& file, const std::string& name, const Storage& storage, std::int64_t columns)
    : row_elements_(std::max<std::int64_t>(1, columns)) {
  core::require(storage.chunk_rows > 0, "a growing dataset needs chunks");
  const std::vector<std::int64_t> extents =
      columns > 0 ? std::vector<std::int64_t>{0, columns} : std::vector<std::int64_t>{0};
  dataset_ = file.create_dataset(name, memory_type<T>(), extents, storage, true, false);
  block_elements_ = static_cast<std::size_t>(storage.chunk_rows * row_elements_);
  block_.reserve(block_elements_);
}

template <Hdf5Element T>
void Appender<T>::append(std::span<const T> elements) {
  core::require(elements.size() % static_cast<std::size_t>(row_elements_) == 0, "appended elements are not whole rows");
  while (!elements.empty()) {
    if (block_.empty() && elements.size() >= block_elements_) {
      write_block(elements.first(block_elements_));
      elements = elements.subspan(block_elements_);
      continue;
    }
    const std::size_t taken = std::min(elements.size(), block_elements_ - block_.size());
    block_.insert(block_.end(), elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(taken));
    elements = elements.subspan(taken);
    if (block_.size() == block_elements_) write_gathered();
  }
}

template <Hdf5Element T>
void Appender<T>::write_gathered() {
  if (block_.empty()) return;
  write_block(block_);
  block_.clear();
}

template <Hdf5Element T>
void Appender<T>::finish() {
  write_gathered();
  if (H5Dflush(dataset_.handle_.id()) < 0) fail_write();
}

template <Hdf5Element T>
void Appender<T>::fail_write() {
  const std::string reason = library_reason();
  divert_to_memory(dataset_.handle_.id());
  detail::fail(dataset_.code_, "write", dataset_.name_, dataset_.path_, reason);
}

template <Hdf5Element T>
std::int64_t Appender<T>::rows() const {
  return written_rows_ + static_cast<std::int64_t>(block_.size()) / row_elements_;
}

template <Hdf5Element T>
void Appender<T>::write_block(std::span<const T> elements) {
  const auto rows = static_cast<std::int64_t>(elements.size()) / row_elements_;
  std::vector<hsize_t> extents(dataset_.info_.extents.begin(), dataset_.info_.extents.end());
  std::vector<hsize_t> start(extents.size(), 0), shape = extents;
  start[0] = static_cast<hsize_t>(written_rows_);
  shape[0] = static_cast<hsize_t>(rows);
  extents[0] = static_cast<hsize_t>(written_rows_ + rows);
  const auto written = [&] {
    if (H5Dset_extent(dataset_.handle_.id(), extents.data()) < 0) return false;
    const Hdf5Handle file_space(H5Dget_space(dataset_.handle_.id()), close_space);
    // The shape of the file's part: HDF5 looks up the chunk of each element alone if shapes differ.
    const Hdf5Handle memory_space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), close_space);
    return H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr) >= 0 &&
           H5Dwrite(dataset_.handle_.id(), memory_type<T>(), memory_space.id(), file_space.id(), H5P_DEFAULT,
                    elements.data()) >= 0;
  };
  if (!written()) fail_write();
  written_rows_ += rows;
}

template class Appender<std::int8_t>;
template class Appender<std::int32_t>;
template class Appender<std::int64_t>;
template class Appender<std::uint8_t>;
template class Appender<std::uint16_t>;
template class Appender<float>;
template class Appender<double>;

}  // namespace bert_hpc::io
