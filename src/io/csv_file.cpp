#include "bert_hpc/io/csv_file.hpp"

#include <charconv>
#include <cmath>

#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

struct CsvFile::State {
  std::string path;
  Descriptor file;
  std::string buffer{};
  bool row_has_fields = false, closed = false;
};

namespace {

constexpr std::size_t buffer_bytes = 1 << 18;

}  // namespace

std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted += '"';
}

CsvFile::CsvFile(const std::string& path) {
  const std::string beside = name_beside(path);
  Descriptor file(core::create_own_file(beside));
  if (!file.valid()) fail_with_errno(core::ExitCode::files, "create", beside);
  state_ = std::unique_ptr<State>(new State{path, std::move(file)});
}

CsvFile::~CsvFile() {
  if (state_->closed) return;
  ::unlink(name_beside(state_->path).c_str());
}

void CsvFile::separate() {
  if (state_->row_has_fields) state_->buffer += ',';
  state_->row_has_fields = true;
}

void CsvFile::text(std::string_view field) {
  separate();
  state_->buffer += csv_field(field);
}

void CsvFile::number(std::int64_t value) {
  separate();
  state_->buffer += std::to_string(value);
}

void CsvFile::number(float value) {
  separate();
  if (std::isnan(value)) return;
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  state_->buffer.append(digits, end);
}

void CsvFile::end_row() {
  state_->buffer += '\n';
  state_->row_has_fields = false;
  if (state_->buffer.size() >= buffer_bytes) flush();
}

void CsvFile::flush() {
  State& state = *state_;
  if (!state.file.write_all(state.buffer.data(), state.buffer.size())) {
    fail_with_errno(core::ExitCode::files, "write", name_beside(state.path));
  }
  state.buffer.clear();
}

void CsvFile::close() {
  State& state = *state_;
  if (state.closed) return;
  flush();
  if (!state.file.close()) fail_with_errno(core::ExitCode::files, "write", name_beside(state.path));
  publish(state.path);
  state.closed = true;
}

}  // namespace bert_hpc::io
