// Judgements of documents ("qrels"), which scorers and searches read.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace bert_hpc::score {

/// Query → document → level; a document is relevant from level 1 on.
using Judgements = std::map<std::string, std::map<std::string, std::int64_t>>;

/// Lines "query 0 document level", separated by blanks (TREC), or "query document level", below a header or without
/// (BEIR). Throws Error(files) if the file cannot be read, and Error(data) with file and line.
Judgements read_judgements(const std::string& path);

}  // namespace bert_hpc::score
