#include "bert_hpc/prep/word_spool.hpp"

#include <cerrno>
#include <cstring>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::size_t buffer_units = 1 << 19;  // 1 MiB
constexpr std::uint32_t continues = 1 << 15;   // in a unit: the lower 16 bits of the number follow

}  // namespace

WordSpool::WordSpool(std::string path) : path_(std::move(path)) {
  const int file = core::create_own_file(path_);
  if (file < 0) fail("cannot be created");
  file_.reset(::fdopen(file, "wb"));
  if (!file_) fail("cannot be created");
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  buffer_.reserve(buffer_units + 2);
}

void WordSpool::fail(const char* what) const {
  throw core::Error(core::ExitCode::files, path_ + ": " + what + ": " + std::strerror(errno) +
                                               ". Scratch files in [output] directory need 2 to 4 bytes per word where "
                                               "a vocabulary is trained.");
}

void WordSpool::write(std::uint32_t number) {
  if (number >= continues) buffer_.push_back(static_cast<std::uint16_t>(continues | number >> 16));
  buffer_.push_back(static_cast<std::uint16_t>(number));
  if (buffer_.size() >= buffer_units) flush();
}

void WordSpool::flush() {
  const std::size_t units = buffer_.size();
  if (std::fwrite(buffer_.data(), sizeof(std::uint16_t), units, file_.get()) != units) fail("writing failed");
  buffer_.clear();
}

void WordSpool::add(const std::vector<std::int32_t>& numbers) {
  write(static_cast<std::uint32_t>(numbers.size()));
  for (const std::int32_t number : numbers) write(static_cast<std::uint32_t>(number));
}

void WordSpool::rewind() {
  if (is_written_) flush();
  is_written_ = false;
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) fail("cannot be opened");
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  buffer_.clear();
  next_ = 0;
}

std::uint16_t WordSpool::read_unit() {
  if (next_ == buffer_.size()) {
    buffer_.resize(buffer_units);
    buffer_.resize(std::fread(buffer_.data(), sizeof(std::uint16_t), buffer_units, file_.get()));
    next_ = 0;
    if (buffer_.empty()) {
      throw core::Error(core::ExitCode::files, path_ +
                                                   ": does not have the size that was written; did another process "
                                                   "change it?");
    }
  }
  return buffer_[next_++];
}

std::uint32_t WordSpool::read() {
  const std::uint32_t unit = read_unit();
  return unit < continues ? unit : (unit & (continues - 1)) << 16 | read_unit();
}

void WordSpool::read(std::vector<std::int32_t>& numbers) {
  for (std::uint32_t left = read(); left > 0; --left) numbers.push_back(static_cast<std::int32_t>(read()));
}

}  // namespace bert_hpc::prep
