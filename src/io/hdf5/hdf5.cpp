// Files, groups and the library's errors; datasets are in dataset.cpp, chunks.cpp and write.cpp, attributes in
// attribute.cpp.
#include "bert_hpc/io/hdf5/hdf5.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "detail.hpp"

namespace bert_hpc::io {

namespace detail {

/// Receives the buffer that the library's in-memory driver would free at closing. (H5Fget_file_image gives no valid
/// image: 1.10.8 clears a flag in the superblock there without updating the block's checksum.)
struct FileMemory {
  void* data = nullptr;
  std::size_t bytes = 0;  // of its last allocation
  FileMemory() = default;
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  ~FileMemory() { std::free(data); }
};

void prepare_library() {
  hdf5_version();  // so that later calls of it do not enter the library, which another thread may be using
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

bool is_sound_type(hid_t type) {
  const H5T_class_t type_class = H5Tget_class(type);
  if (type_class != H5T_INTEGER && type_class != H5T_FLOAT) return true;
  const H5T_order_t order = H5Tget_order(type);
  const std::size_t bits = 8 * H5Tget_size(type);
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE && bits != 8) return false;  // one byte has no order
  if (H5Tget_offset(type) != 0 || H5Tget_precision(type) != bits) return false;
  if (type_class == H5T_INTEGER) return true;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 && sign < bits &&
         exponent < bits && exponent_bits <= bits - exponent && mantissa < bits && mantissa_bits <= bits - mantissa;
}

std::string library_reason() {
  std::string reason;
  const H5E_walk2_t first = [](unsigned, const H5E_error2_t* entry, void* out) -> herr_t {
    auto& text = *static_cast<std::string*>(out);
    if (text.empty() && entry->desc != nullptr) text = entry->desc;
    return 0;
  };
  // H5E_WALK_UPWARD starts where the error arose.
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &reason);
  H5Eclear2(H5E_DEFAULT);
  // The message of a failed system call surrounds the system's own words with time, addresses and sizes.
  const std::string mark = "error message = '";
  const std::size_t begin = reason.find(mark);
  if (begin != std::string::npos) {
    const std::size_t words = begin + mark.size();
    reason = reason.substr(words, reason.find('\'', words) - words);
  }
  return reason.empty() ? "the HDF5 library gives no reason" : reason;
}

Hdf5Handle text_type(std::size_t width) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), close_type);
  H5Tset_size(type.id(), width == 0 ? H5T_VARIABLE : width);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  H5Tset_strpad(type.id(), width == 0 ? H5T_STR_NULLTERM : H5T_STR_NULLPAD);
  return type;
}

void fail(core::ExitCode code, const std::string& doing, const std::string& object, const std::string& path,
          const std::string& reason) {
  const std::string what = object.empty() ? "'" + path + "'" : "'" + object + "' of '" + path + "'";
  throw core::Error(code, "Cannot " + doing + " " + what + ": " + reason + ".");
}

namespace {

/// Properties for every open: 1.10's format (checksummed metadata, no silent damage), and closing the file closes all
/// objects in it.
Hdf5Handle access_properties() {
  Hdf5Handle properties(H5Pcreate(H5P_FILE_ACCESS), close_properties);
  H5Pset_libver_bounds(properties.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_fclose_degree(properties.id(), H5F_CLOSE_STRONG);
  // Files are only read, or written in staging and renamed, so the library's locks are not needed; some file systems
  // reject them.
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  H5Pset_file_locking(properties.id(), false, true);
#endif
  return properties;
}

Hdf5Handle creation_properties(std::int64_t user_block) {
  Hdf5Handle properties(H5Pcreate(H5P_FILE_CREATE), close_properties);
  H5Pset_obj_track_times(properties.id(), false);
  if (user_block > 0) H5Pset_userblock(properties.id(), static_cast<hsize_t>(user_block));
  return properties;
}

H5FD_file_image_callbacks_t memory_callbacks(FileMemory* memory) {
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](std::size_t bytes, H5FD_file_image_op_t, void* owner) {
    static_cast<FileMemory*>(owner)->bytes = bytes;
    return std::malloc(bytes);
  };
  callbacks.image_realloc = [](void* old, std::size_t bytes, H5FD_file_image_op_t, void* owner) {
    static_cast<FileMemory*>(owner)->bytes = bytes;
    return std::realloc(old, bytes);
  };
  callbacks.image_memcpy = [](void* to, const void* from, std::size_t bytes, H5FD_file_image_op_t, void*) {
    return std::memcpy(to, from, bytes);
  };
  callbacks.image_free = [](void* data, H5FD_file_image_op_t operation, void* owner) -> herr_t {
    auto* kept = static_cast<FileMemory*>(owner);
    // The last close is that of the file itself; H5Fcreate may open and close before it.
    if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) std::swap(data, kept->data);
    std::free(data);
    return 0;
  };
  // The owner outlives the file, so copies of the property list may share it.
  callbacks.udata_copy = [](void* owner) { return owner; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = memory;
  return callbacks;
}

}  // namespace
}  // namespace detail

using namespace detail;

bool Hdf5Handle::reset() noexcept {
  const std::int64_t id = std::exchange(id_, -1);
  // Closing the file may already have invalidated the id.
  if (id < 0 || close_ == nullptr || H5Iis_valid(id) <= 0) return true;
  return close_(id) >= 0;
}

void Hdf5File::fail(const std::string& doing, const std::string& object) const {
  detail::fail(code_, doing, object, path_, library_reason());
}

Hdf5File Hdf5File::open_read(const std::string& path, core::ExitCode code) {
  prepare_library();
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (!std::filesystem::exists(status)) detail::fail(code, "open", "", path, "there is no such file");
  if (!std::filesystem::is_regular_file(status)) detail::fail(code, "open", "", path, "it is not a regular file");
  const Hdf5Handle access = access_properties();
  Hdf5Handle handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), close_file);
  if (handle.id() < 0) {
    const std::string reason = library_reason();
    const bool foreign = H5Fis_hdf5(path.c_str()) == 0;
    detail::fail(code, "open", "", path, foreign ? "it is not an HDF5 file" : reason);
  }
  return Hdf5File(std::move(handle), path, code);
}

Hdf5File Hdf5File::create(const std::string& path, core::ExitCode code, std::int64_t user_block) {
  prepare_library();
  const Hdf5Handle access = access_properties();
  const Hdf5Handle creation = creation_properties(user_block);
  ::unlink(path.c_str());  // do not write through a link of that name
  Hdf5Handle handle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.id(), access.id()), close_file);
  if (handle.id() < 0) detail::fail(code, "create", "", path, library_reason());
  return Hdf5File(std::move(handle), path, code);
}

Hdf5File Hdf5File::create_in_memory(const std::string& path, core::ExitCode code) {
  prepare_library();
  const Hdf5Handle access = access_properties();
  const Hdf5Handle creation = creation_properties(0);
  constexpr std::size_t growth = 1 << 16;
  auto memory = std::make_shared<FileMemory>();
  H5FD_file_image_callbacks_t callbacks = memory_callbacks(memory.get());
  H5Pset_fapl_core(access.id(), growth, false);
  H5Pset_file_image_callbacks(access.id(), &callbacks);
  // If a file of that name existed, the driver would read it only to discard it.
  const std::string name = path + " (in memory)";
  Hdf5Handle handle(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), close_file);
  if (handle.id() < 0) detail::fail(code, "create", "", path, library_reason());
  Hdf5File file(std::move(handle), path, code);
  file.memory_ = std::move(memory);
  return file;
}

void Hdf5File::fail_write(const std::string& object) {
  const std::string reason = library_reason();
  divert_to_memory(handle_.id());
  detail::fail(code_, "write", object, path_, reason);
}

void Hdf5File::flush() {
  if (H5Fflush(handle_.id(), H5F_SCOPE_LOCAL) < 0) fail_write("");
}

void Hdf5File::close() {
  if (handle_.id() < 0) return;
  if (is_diverted(handle_.id())) detail::fail(code_, "write", "", path_, "an earlier write to it failed");
  // Flush first to get the reason for a failure; closing alone loses it.
  flush();
  if (!handle_.reset()) fail("close", "");
}

void Hdf5File::abandon() noexcept {
  if (handle_.id() < 0) return;
  unsigned intent = 0;
  const bool written = H5Fget_intent(handle_.id(), &intent) >= 0 && (intent & H5F_ACC_RDWR) != 0;
  if (written && H5Fflush(handle_.id(), H5F_SCOPE_LOCAL) < 0) divert_to_memory(handle_.id());
  H5Eclear2(H5E_DEFAULT);
}

std::vector<std::byte> Hdf5File::close_to_bytes() {
  core::require(memory_ != nullptr, "only a file made in memory has bytes to give");
  // The first flush frees unused space at the file's end; the flush in close() then frees its memory.
  flush();
  close();
  core::require(memory_->data != nullptr, "the HDF5 library kept the image of a file made in memory");
  // The size is that of the allocation: before closing, H5Fget_filesize may return more.
  const auto* begin = static_cast<const std::byte*>(memory_->data);
  return {begin, begin + memory_->bytes};
}

bool Hdf5File::exists(const std::string& name) const {
  if (name == "/") return true;
  // Every step of the path must be an ordinary link: soft and external links can lead out of the file or form cycles.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    H5L_info_t info;
    const bool present = H5Lget_info(handle_.id(), part.c_str(), &info, H5P_DEFAULT) >= 0;
    if (!present) H5Eclear2(H5E_DEFAULT);
    if (!present || info.type != H5L_TYPE_HARD) return false;
    if (end == std::string::npos) return true;
  }
}

void Hdf5File::create_group(const std::string& name) {
  if (exists(name)) return;
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) create_group(name.substr(0, slash));
  const Hdf5Handle creation(H5Pcreate(H5P_GROUP_CREATE), close_properties);
  H5Pset_obj_track_times(creation.id(), false);
  const Hdf5Handle group(H5Gcreate2(handle_.id(), name.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), close_object);
  if (group.id() < 0) fail("create group", name);
}

std::vector<std::string> Hdf5File::names(const std::string& group) const {
  const Hdf5Handle object = open_object(group);
  if (H5Iget_type(object.id()) != H5I_GROUP) detail::fail(code_, "list", group, path_, "it is not a group");
  std::vector<std::string> names;
  const H5L_iterate_t collect = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  if (H5Literate(object.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names) < 0) fail("list", group);
  std::sort(names.begin(), names.end());
  return names;
}

Hdf5Handle Hdf5File::open_object(const std::string& object) const {
  if (!exists(object)) detail::fail(code_, "open", object, path_, "the file has no such group or dataset");
  Hdf5Handle handle(H5Oopen(handle_.id(), object.c_str(), H5P_DEFAULT), close_object);
  if (handle.id() < 0) fail("open", object);
  return handle;
}

std::string hdf5_version() {
  static const std::string version = [] {
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  }();
  return version;
}

std::int64_t Dataset::file_offset() const {
  const haddr_t offset = H5Dget_offset(handle_.id());
  if (offset == HADDR_UNDEF) fail("it is not stored in one piece (" + library_reason() + ")");
  return static_cast<std::int64_t>(offset);
}

}  // namespace bert_hpc::io
