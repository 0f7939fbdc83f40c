#include "bert_hpc/io/conll_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {
namespace {

constexpr std::size_t block = std::size_t{1} << 16;  // bytes written at once

}  // namespace

ConllFile::ConllFile(const std::string& path) : path_(path), file_(name_beside(path), std::ios::binary) {
  flush();
}

ConllFile::~ConllFile() {
  if (!open_) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(name_beside(path_), ignored);
}

void ConllFile::add(std::string_view word, std::string_view gold, std::string_view predicted) {
  const std::size_t begin = text_.size();
  text_ += word.empty() ? "_" : word;
  for (std::size_t i = begin; i < text_.size(); ++i) {
    if (std::strchr(" \t\r\n\v\f", text_[i]) != nullptr) text_[i] = '_';
  }
  for (const std::string_view tag : {gold, predicted}) {
    if (!tag.empty()) (text_ += ' ') += tag;
  }
  text_ += '\n';
  if (text_.size() >= block) flush();
}

void ConllFile::end_sentence() {
  text_ += '\n';
}

void ConllFile::flush() {
  file_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
  if (!file_) {
    throw core::Error(core::ExitCode::files, name_beside(path_) + ": cannot be written: " + std::strerror(errno) + ".");
  }
  text_.clear();
}

void ConllFile::close() {
  flush();
  file_.close();
  if (!file_) {
    throw core::Error(core::ExitCode::files, name_beside(path_) + ": cannot be written: " + std::strerror(errno) + ".");
  }
  publish(path_);
  open_ = false;
}

}  // namespace bert_hpc::io
