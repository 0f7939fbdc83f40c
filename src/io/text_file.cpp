#include "bert_hpc/io/text_file.hpp"

#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

struct TextFile::State {
  std::string path;
  Descriptor file;
  std::string buffer{};
  bool closed = false;
};

namespace {

constexpr std::size_t buffer_bytes = 1 << 18;

}  // namespace

TextFile::TextFile(const std::string& path) {
  const std::string beside = name_beside(path);
  Descriptor file(core::create_own_file(beside));
  if (!file.valid()) fail_with_errno(core::ExitCode::files, "create", beside);
  state_ = std::unique_ptr<State>(new State{path, std::move(file)});
}

TextFile::~TextFile() {
  if (state_->closed) return;
  ::unlink(name_beside(state_->path).c_str());
}

void TextFile::write(std::string_view text) {
  state_->buffer += text;
  if (state_->buffer.size() >= buffer_bytes) flush();
}

void TextFile::flush() {
  State& state = *state_;
  if (!state.file.write_all(state.buffer.data(), state.buffer.size())) {
    fail_with_errno(core::ExitCode::files, "write", name_beside(state.path));
  }
  state.buffer.clear();
}

void TextFile::close() {
  State& state = *state_;
  if (state.closed) return;
  flush();
  if (!state.file.close()) fail_with_errno(core::ExitCode::files, "write", name_beside(state.path));
  publish(state.path);
  state.closed = true;
}

}  // namespace bert_hpc::io
