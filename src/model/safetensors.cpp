#include "bert_hpc/model/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_strict.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr std::int64_t longest_header = std::int64_t{32} << 20;  // BERT-large's is 50 kB
constexpr std::size_t max_dimensions = 16;

// Bytes of an element; 0 for a type that is not known here (its size cannot be checked, and it is never read).
std::int64_t element_bytes(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> sizes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},    {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

// IEEE half precision to single, exact for every input. A subnormal is its integer times 2^-24.
float widen_half(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu, mantissa = bits & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

float widen_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// A non-negative whole number of the header.
bool to_size(const json& value, std::int64_t& size) {
  if (!value.is_number_unsigned()) return false;
  const std::uint64_t wide = value.get<std::uint64_t>();
  size = static_cast<std::int64_t>(wide);
  return wide <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
}

// Product of the shape; false if it overflows.
bool product(const std::vector<std::int64_t>& shape, std::int64_t& elements) {
  elements = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return false;
  }
  return true;
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ExitCode::files, path.string() + ": " + reason);
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& tensor, const std::string& reason) {
  fail(path, "tensor " + core::in_quotes(tensor) + ": " + reason);
}

std::string range_text(std::int64_t begin, std::int64_t end) {
  std::string text = "[";
  text += std::to_string(begin);
  text += ", ";
  text += std::to_string(end);
  return text += ")";
}

StoredTensor parse_entry(const std::filesystem::path& path, const std::string& name, const json& entry) {
  StoredTensor tensor{.name = name};
  if (!entry.is_object()) fail(path, name, "its header entry must be an object with dtype, shape and data_offsets.");
  const auto dtype = entry.find("dtype"), shape = entry.find("shape"), offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string()) fail(path, name, "dtype must be a string such as \"F32\".");
  tensor.dtype = dtype->get<std::string>();
  if (shape == entry.end() || !shape->is_array() || shape->size() > max_dimensions) {
    fail(path, name, "shape must be a list of at most 16 sizes.");
  }
  for (const json& extent : *shape) {
    if (!to_size(extent, tensor.shape.emplace_back())) fail(path, name, "shape must hold non-negative integers.");
  }
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 || !to_size((*offsets)[0], tensor.begin) ||
      !to_size((*offsets)[1], tensor.end)) {
    fail(path, name, "data_offsets must be two non-negative integers.");
  }
  return tensor;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(path, std::string("cannot be opened (") + std::strerror(errno) + ").");
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) fail(path, "is not a regular file.");
    const std::int64_t size = status.st_size;
    if (size < 8) {
      fail(path, "is only " + std::to_string(size) +
                     " bytes long: empty or truncated. A safetensors file begins "
                     "with 8 bytes that give the length of its header.");
    }
    StoredTensor start{.name = "header", .end = 8};
    std::uint64_t length = 0;
    read_bytes(start, 0, &length, 8);
    if (length < 2 || length > static_cast<std::uint64_t>(longest_header)) {
      fail(path, "is not a safetensors file: its first 8 bytes give a header of " + std::to_string(length) +
                     " bytes, which is too large.");
    }
    const std::int64_t header = static_cast<std::int64_t>(length);
    if (header > size - 8) {
      fail(path, "is truncated: the header alone needs " + std::to_string(header + 8) + " bytes, the file has " +
                     std::to_string(size) + ". Copy or download it again.");
    }
    start = {.name = "header", .begin = 8, .end = 8 + header};
    std::string text(static_cast<std::size_t>(header), '\0');
    read_bytes(start, 0, text.data(), header);
    if (text[0] != '{') fail(path, "is not a safetensors file: its header does not begin with \"{\".");
    parse_header(text, 8 + header, size);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      tensors_(std::move(other.tensors_)),
      by_name_(std::move(other.by_name_)),
      metadata_(std::move(other.metadata_)) {}

void SafetensorsFile::parse_header(const std::string& text, std::int64_t data_begin, std::int64_t file_size) {
  const json root = core::parse_strict_json(text, path_.string() + ": header");
  for (const auto& [name, entry] : root.items()) {
    if (name != "__metadata__") {
      tensors_.push_back(parse_entry(path_, name, entry));
      continue;
    }
    if (!entry.is_object()) fail(path_, "__metadata__ must be an object of strings.");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string())
        fail(path_, "__metadata__ must hold strings, but " + core::in_quotes(key) + " is something else.");
      metadata_[key] = value.get<std::string>();
    }
  }
  check_layout(data_begin, file_size);
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

// Every byte behind the header belongs to exactly one tensor, whose type and shape say how many it has.
void SafetensorsFile::check_layout(std::int64_t data_begin, std::int64_t file_size) {
  const std::int64_t data_size = file_size - data_begin;
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::int64_t expected = 0;
  for (StoredTensor& tensor : tensors_) {
    const std::string offsets = range_text(tensor.begin, tensor.end);
    if (tensor.end < tensor.begin) fail(path_, tensor.name, "its data_offsets " + offsets + " run backwards.");
    if (tensor.end > data_size) {
      fail(path_, tensor.name,
           "its data_offsets " + offsets + " reach beyond the file, which has " + std::to_string(data_size) +
               " bytes of data: the file is truncated or corrupted. Copy or download it again.");
    }
    if (tensor.begin != expected) {
      fail(path_, tensor.name,
           "its data_offsets " + offsets + (tensor.begin < expected ? " overlap" : " leave a gap to") +
               " the tensor before, which ends at " + std::to_string(expected) + ".");
    }
    const std::int64_t width = element_bytes(tensor.dtype);
    std::int64_t bytes = 0;
    if (!product(tensor.shape, tensor.elements) || __builtin_mul_overflow(tensor.elements, width, &bytes) ||
        (width != 0 && bytes != tensor.end - tensor.begin)) {
      fail(path_, tensor.name,
           "its shape " + shape_text(tensor.shape) + " of " + core::in_quotes(tensor.dtype) + " does not fit the " +
               std::to_string(tensor.end - tensor.begin) + " bytes of its data_offsets.");
    }
    expected = tensor.end;
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  if (expected != data_size) {
    fail(path_, "has " + std::to_string(data_size - expected) +
                    " bytes after its last tensor that belong to no tensor: it is corrupted.");
  }
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, std::int64_t offset, void* out, std::int64_t bytes) const {
  char* next = static_cast<char*>(out);
  std::int64_t position = tensor.begin + offset;
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, next, static_cast<std::size_t>(bytes), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, tensor.name, std::string("cannot be read (") + std::strerror(errno) + ").");
    if (count == 0) fail(path_, tensor.name, "the file ended while it was read: something shortened it meanwhile.");
    next += count;
    position += count;
    bytes -= count;
  }
}

template <class Stored, class Out, class Convert>
void SafetensorsFile::read_as(const StoredTensor& tensor, std::int64_t begin, std::span<Out> out,
                              Convert convert) const {
  constexpr std::int64_t block = 1 << 16, width = sizeof(Stored);
  const auto elements = static_cast<std::int64_t>(out.size());
  std::vector<Stored> stored(static_cast<std::size_t>(std::min(block, elements)));
  for (std::int64_t first = 0; first < elements; first += block) {
    const std::int64_t count = std::min(block, elements - first);
    read_bytes(tensor, (begin + first) * width, stored.data(), count * width);
    std::transform(stored.begin(), stored.begin() + count, out.begin() + first, convert);
  }
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<float> out) const {
  core::require(static_cast<std::int64_t>(out.size()) == tensor.elements, "safetensors: output of another size");
  read_part(tensor, 0, out);
}

void SafetensorsFile::read_part(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const {
  const auto count = static_cast<std::int64_t>(out.size()), width = static_cast<std::int64_t>(sizeof(float));
  core::require(first >= 0 && count <= tensor.elements - first, "safetensors: a part that the tensor does not have");
  if (tensor.dtype == "F32") return read_bytes(tensor, first * width, out.data(), count * width);
  if (tensor.dtype == "F16") return read_as<std::uint16_t>(tensor, first, out, widen_half);
  if (tensor.dtype == "BF16") return read_as<std::uint16_t>(tensor, first, out, widen_bfloat);
  fail(path_, tensor.name,
       "is of type " + core::in_quotes(tensor.dtype) + ", but weights are read from F32, F16 or BF16.");
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<double> out) const {
  core::require(static_cast<std::int64_t>(out.size()) == tensor.elements, "safetensors: output of another size");
  if (tensor.dtype == "F64") return read_bytes(tensor, 0, out.data(), tensor.end - tensor.begin);
  if (tensor.dtype == "F32") return read_as<float>(tensor, 0, out, [](float x) { return static_cast<double>(x); });
  if (tensor.dtype == "F16") return read_as<std::uint16_t>(tensor, 0, out, widen_half);
  if (tensor.dtype == "BF16") return read_as<std::uint16_t>(tensor, 0, out, widen_bfloat);
  fail(path_, tensor.name, "is of type " + core::in_quotes(tensor.dtype) + ", but must be F64, F32, F16 or BF16.");
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::int64_t> out) const {
  core::require(static_cast<std::int64_t>(out.size()) == tensor.elements, "safetensors: output of another size");
  if (tensor.dtype == "I64") return read_bytes(tensor, 0, out.data(), tensor.end - tensor.begin);
  const auto widen = [](auto x) { return static_cast<std::int64_t>(x); };
  if (tensor.dtype == "I32") return read_as<std::int32_t>(tensor, 0, out, widen);
  if (tensor.dtype == "U8") return read_as<std::uint8_t>(tensor, 0, out, widen);
  fail(path_, tensor.name, "is of type " + core::in_quotes(tensor.dtype) + ", but must be I64, I32 or U8.");
}

}  // namespace bert_hpc::model
