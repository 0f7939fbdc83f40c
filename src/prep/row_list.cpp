#include "row_list.hpp"

#include <cerrno>
#include <cstring>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {

RowList::RowList(std::string path, const char* words) : path_(std::move(path)), file_(path_, std::ios::binary) {
  file_ << "file\trow\tline\t" << words << '\n';
}

void RowList::add(const std::string& file, const SourceRow& row, const std::string& words) {
  const std::string line = row.line > 0 ? std::to_string(row.line) : "";
  file_ << core::printable(file, 4096) << '\t' << row.number << '\t' << line << '\t' << words << '\n';
}

void RowList::close() {
  if (!file_.flush()) {
    throw core::Error(core::ExitCode::files, path_ + ": writing failed: " + std::strerror(errno) + ".");
  }
}

}  // namespace bert_hpc::prep
