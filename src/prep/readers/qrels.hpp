// Judgements of passages in the form of TREC: lines "query 0 passage level". Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bert_hpc::prep {

struct Judgement {
  std::uint64_t query = 0;  ///< core::fnv1a_64() of its id
  std::int32_t level = 0;   ///< of relevance, at least 0
  std::int64_t line = 0;    ///< of the file, from 1
};

/// A level of relevance, a whole number from 0 to a million; "1.0" is one too.
bool parse_level(std::string_view text, std::int32_t& level);

class Qrels {
 public:
  /// Throws Error(files) if the file cannot be read, and Error(data) with file and line for lines of another form
  /// and a passage that a query has twice.
  explicit Qrels(const std::string& file);

  const std::string& file() const { return file_; }
  const std::vector<Judgement>& all() const { return all_; }
  /// Index in all(); none if the passage is not judged.
  std::optional<std::size_t> find(std::string_view query, std::string_view passage) const;

 private:
  std::string file_;
  std::vector<Judgement> all_;
  std::unordered_map<std::uint64_t, std::size_t> indices_;  // by hash of query and passage
};

}  // namespace bert_hpc::prep
