// Attributes: text, integers and reals, single or in arrays.
#include <cstring>

#include "detail.hpp"

namespace bert_hpc::io {

using namespace detail;

namespace {

constexpr std::int64_t scalar = -1;  ///< as a count: a scalar without dimensions

/// Number of entries, or −1 if it cannot be determined.
std::int64_t entries_of(hid_t attribute) {
  const Hdf5Handle space(H5Aget_space(attribute), close_space);
  if (space.id() < 0 || H5Sget_simple_extent_type(space.id()) == H5S_NULL) return -1;
  return H5Sget_simple_extent_npoints(space.id());
}

}  // namespace

void Hdf5File::replace_attribute(const std::string& object, const std::string& name, std::int64_t type,
                                 std::int64_t count, const void* data) {
  const Hdf5Handle owner = open_object(object);
  const std::string label = object + "@" + name;
  if (H5Aexists(owner.id(), name.c_str()) > 0 && H5Adelete(owner.id(), name.c_str()) < 0) fail("replace", label);
  const auto extent = static_cast<hsize_t>(count);
  const Hdf5Handle space(count == scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr), close_space);
  const Hdf5Handle attribute(H5Acreate2(owner.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             close_attribute);
  if (attribute.id() < 0) fail("create", label);
  if (count != 0 && H5Awrite(attribute.id(), type, data) < 0) fail("write", label);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name, const std::string& value) {
  const Hdf5Handle type = text_type(0);
  const char* pointer = value.c_str();
  replace_attribute(object, name, type.id(), scalar, &pointer);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name, std::int64_t value) {
  replace_attribute(object, name, H5T_NATIVE_INT64, scalar, &value);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name, double value) {
  replace_attribute(object, name, H5T_NATIVE_DOUBLE, scalar, &value);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name,
                               const std::vector<std::string>& values) {
  const Hdf5Handle type = text_type(0);
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  replace_attribute(object, name, type.id(), static_cast<std::int64_t>(values.size()), pointers.data());
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name,
                               const std::vector<std::int64_t>& values) {
  replace_attribute(object, name, H5T_NATIVE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void Hdf5File::write_attribute(const std::string& object, const std::string& name, const std::vector<double>& values) {
  replace_attribute(object, name, H5T_NATIVE_DOUBLE, static_cast<std::int64_t>(values.size()), values.data());
}

bool Hdf5File::has_attribute(const std::string& object, const std::string& name) const {
  if (!exists(object)) return false;
  const htri_t present = H5Aexists_by_name(handle_.id(), object.c_str(), name.c_str(), H5P_DEFAULT);
  if (present < 0) H5Eclear2(H5E_DEFAULT);
  return present > 0;
}

Hdf5Handle Hdf5File::open_attribute(const std::string& object, const std::string& name) const {
  if (exists(object)) {
    Hdf5Handle attribute(H5Aopen_by_name(handle_.id(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                         close_attribute);
    if (attribute.id() >= 0) return attribute;
  }
  const std::string reason = library_reason();
  detail::fail(code_, "read attribute", object + "@" + name, path_,
               has_attribute(object, name) ? reason : "there is no such attribute");
}

template <class T>
std::vector<T> Hdf5File::numeric_attributes(const std::string& object, const std::string& name,
                                            std::int64_t max_elements) const {
  const Hdf5Handle attribute = open_attribute(object, name);
  const auto refuse = [&](const std::string& what) {
    detail::fail(code_, "read attribute", object + "@" + name, path_, what);
  };
  const Hdf5Handle type(H5Aget_type(attribute.id()), close_type);
  const H5T_class_t type_class = H5Tget_class(type.id());
  // An integer is accepted where a real is expected, as in most languages; not the reverse.
  const bool fits = (type_class == H5T_INTEGER || (type_class == H5T_FLOAT && std::floating_point<T>)) &&
                    detail::is_sound_type(type.id());
  if (!fits) refuse(std::string("needed is ") + (std::floating_point<T> ? "a number" : "an integer"));
  const std::int64_t count = entries_of(attribute.id());
  if (count < 0 || count > max_elements) refuse("it has an impossible number of entries");
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0 && H5Aread(attribute.id(), memory_type<T>(), values.data()) < 0) refuse(library_reason());
  return values;
}

std::vector<std::int64_t> Hdf5File::integer_attributes(const std::string& object, const std::string& name,
                                                       std::int64_t max_elements) const {
  return numeric_attributes<std::int64_t>(object, name, max_elements);
}

std::vector<double> Hdf5File::real_attributes(const std::string& object, const std::string& name,
                                              std::int64_t max_elements) const {
  return numeric_attributes<double>(object, name, max_elements);
}

std::vector<std::string> Hdf5File::text_attributes(const std::string& object, const std::string& name,
                                                   std::int64_t max_elements) const {
  const Hdf5Handle attribute = open_attribute(object, name);
  const auto refuse = [&](const std::string& what) {
    detail::fail(code_, "read attribute", object + "@" + name, path_, what);
  };
  const Hdf5Handle type(H5Aget_type(attribute.id()), close_type);
  if (H5Tget_class(type.id()) != H5T_STRING) refuse("needed is text");
  const std::int64_t entries = entries_of(attribute.id());
  if (entries < 0 || entries > max_elements) refuse("it has an impossible number of entries");
  const auto count = static_cast<std::size_t>(entries);
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  if (H5Tis_variable_str(type.id()) > 0) {
    const Hdf5Handle space(H5Aget_space(attribute.id()), close_space);
    std::vector<char*> pointers(count, nullptr);
    const bool good = H5Aread(attribute.id(), type.id(), pointers.data()) >= 0;
    const std::string reason = good ? "" : library_reason();
    for (std::size_t i = 0; good && i < count; ++i) texts[i] = pointers[i] == nullptr ? "" : pointers[i];
    H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, pointers.data());
    if (!good) refuse(reason);
    return texts;
  }
  const std::size_t width = H5Tget_size(type.id());
  hsize_t file_bytes = 0;
  if (H5Fget_filesize(handle_.id(), &file_bytes) < 0) refuse(library_reason());
  if (width > static_cast<std::size_t>(file_bytes) / count) refuse("it claims more text than its file has");
  std::vector<char> fields(width * count);
  if (H5Aread(attribute.id(), type.id(), fields.data()) < 0) refuse(library_reason());
  for (std::size_t i = 0; i < count; ++i) {
    const char* field = fields.data() + i * width;
    texts[i].assign(field, strnlen(field, width));
  }
  return texts;
}

std::string Hdf5File::text_attribute(const std::string& object, const std::string& name) const {
  const std::vector<std::string> values = text_attributes(object, name, 1);
  return values.empty() ? "" : values[0];
}

std::int64_t Hdf5File::integer_attribute(const std::string& object, const std::string& name) const {
  const std::vector<std::int64_t> values = integer_attributes(object, name, 1);
  if (values.empty()) detail::fail(code_, "read attribute", object + "@" + name, path_, "it is empty");
  return values[0];
}

}  // namespace bert_hpc::io
