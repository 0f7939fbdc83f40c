#include "event_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>

#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1u) * 0x82f63b78u);
    table[byte] = remainder;
  }
  return table;
}();

/// Masks a checksum, because a checksum over data that contains checksums is weak.
std::uint32_t masked(std::uint32_t checksum) {
  return std::rotr(checksum, 15) + 0xa282ead8u;
}

template <class Unsigned>
void add_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xffu);
}

void add_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>((value & 0x7f) | 0x80);
  message += static_cast<char>(value);
}

// Fields of a message: a field number with its wire type, then the value.

void add_field(std::string& message, unsigned number, std::int64_t value) {
  add_varint(message, number << 3);
  add_varint(message, static_cast<std::uint64_t>(value));
}
void add_field(std::string& message, unsigned number, double value) {
  add_varint(message, number << 3 | 1);
  add_little_endian(message, std::bit_cast<std::uint64_t>(value));
}
void add_field(std::string& message, unsigned number, std::string_view value) {
  add_varint(message, number << 3 | 2);
  add_varint(message, value.size());
  message += value;
}
void add_field(std::string& message, unsigned number, float value) {
  add_varint(message, number << 3 | 5);
  add_little_endian(message, std::bit_cast<std::uint32_t>(value));
}

/// Curves are in float: values beyond its range become infinite.
float as_float(double value) {
  constexpr double most = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  return static_cast<float>(value > most ? infinity : value < -most ? -infinity : value);
}

constexpr std::string_view prefix = "events.out.tfevents.", suffix = ".bert_hpc";

std::string file_name(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string name(prefix);
  name.append(10 - std::min<std::size_t>(digits.size(), 10), '0').append(digits).append(suffix);
  return name;
}

/// The number in a file's name; nullopt for files of others in the same directory.
std::optional<std::int64_t> number_of(const std::string& name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return {};
  std::int64_t number = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return file_name(number) == name ? std::optional(number) : std::nullopt;
}

/// Removes the content of our files from the directory; returns their greatest number. The last file stays, empty: a
/// TensorBoard that is reading it continues from its end to the next file, and never from one that is gone. A link is
/// removed, not its target.
std::int64_t emptied(const std::string& directory) {
  std::int64_t greatest = 0;
  try {
    if (!fs::is_directory(fs::symlink_status(directory))) fs::remove(directory);
    make_directories(directory);
    for (const fs::path& there : std::vector<fs::path>(fs::directory_iterator(directory), {})) {
      const std::optional<std::int64_t> number = number_of(there.filename().string());
      if (!number) continue;
      greatest = std::max(greatest, *number);
      fs::remove(there);
    }
  } catch (const fs::filesystem_error& error) {
    throw core::Error(core::ExitCode::files,
                      "Cannot begin event files in '" + directory + "': " + error.code().message() + ".");
  }
  const std::string last = directory + '/' + file_name(greatest);
  if (greatest > 0 && !Descriptor(core::create_own_file(last)).valid()) {
    fail_with_errno(core::ExitCode::files, "create", last);
  }
  return greatest;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t checksum = ~0u;
  for (const char c : bytes) checksum = (checksum >> 8) ^ crc_table[(checksum ^ static_cast<unsigned char>(c)) & 0xffu];
  return ~checksum;
}

std::string encode_record(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + 16);
  add_little_endian(record, std::uint64_t{payload.size()});
  add_little_endian(record, masked(crc32c(record)));
  record += payload;
  add_little_endian(record, masked(crc32c(payload)));
  return record;
}

std::string encode_beginning(double wall_time) {
  std::string version, start, log;
  add_field(version, 1, wall_time);
  add_field(version, 3, std::string_view("brain.Event:2"));
  add_field(log, 1, std::int64_t{1});  // START
  add_field(start, 1, wall_time);
  add_field(start, 7, std::string_view(log));
  return encode_record(version) + encode_record(start);
}

std::string encode_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string event, summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    add_field(value, 1, std::string_view(scalar.tag));
    add_field(value, 2, as_float(scalar.value));
    add_field(summary, 1, std::string_view(value));
  }
  add_field(event, 1, wall_time);
  add_field(event, 2, step);
  add_field(event, 5, std::string_view(summary));
  return encode_record(event);
}

EventFile::EventFile(const std::string& directory, double wall_time) {
  const std::int64_t greatest = emptied(directory);
  path_ = directory + '/' + file_name(std::max(static_cast<std::int64_t>(wall_time), greatest + 1));
  file_ = Descriptor(core::create_own_file(path_));
  if (!file_.valid()) fail_with_errno(core::ExitCode::files, "create", path_);
  append(encode_beginning(wall_time));
}

void EventFile::append(std::string_view records) {
  if (!file_.write_all_at(records.data(), records.size(), size_)) {
    fail_with_errno(core::ExitCode::files, "write", path_);
  }
  size_ += static_cast<std::int64_t>(records.size());
}

void EventFile::sync() {
  if (::fdatasync(file_.get()) != 0) fail_with_errno(core::ExitCode::files, "force to the disk", path_);
}

}  // namespace bert_hpc::io::detail
