// What is checked before and told after the work itself.
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;
using tokenize::Vocabulary;

std::string vocabulary_file(const PrepConfig& config) {
  const std::string& given = config.tokenizer.vocabulary;
  std::error_code ignored;
  return std::filesystem::is_directory(given, ignored) ? given + "/vocab.txt" : given;
}

void check_files(const PrepConfig& config) {
  std::vector<std::string> columns = config.source.text;
  columns.insert(columns.end(), config.source.text_pair.begin(), config.source.text_pair.end());
  if (config.has_labels()) columns.push_back(config.source.label);
  for (const auto* files : {&config.source.files, &config.source.validation_files, &config.source.test_files}) {
    for (const std::string& file : *files) tokenize::open_rows(file, config.row_format(), columns);
  }
  if (config.tokenizer.train_size == 0) Vocabulary::load(vocabulary_file(config));
  std::filesystem::path folder = std::filesystem::absolute(config.output.directory);
  while (!std::filesystem::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder) || ::access(folder.c_str(), W_OK) != 0) {
    throw Error(ExitCode::files,
                config.output.directory + ": [output] directory cannot be written: " + folder.string() + ".");
  }
}

std::string describe(const Summary& summary, const PrepConfig& config) {
  std::string text;
  const auto line = [&text](const std::string& words) { text += words + '\n'; };
  const auto& status = summary.by_status;
  const std::int64_t kept = status[0] + status[1] + status[2];
  line("rows        " + core::with_commas(summary.rows) + " read, " + core::with_commas(kept) + " kept, " +
       core::with_commas(summary.rows - kept) + " left out (see rejects.tsv)");
  for (int s = split_count; s < row_status_count; ++s) {
    if (const std::int64_t count = status[static_cast<std::size_t>(s)]; count > 0) {
      line("            " + core::with_commas(count) + ": " + reason(static_cast<RowStatus>(s)));
    }
  }
  for (int s = 0; s < split_count; ++s) {
    const SplitSummary& split = summary.splits[static_cast<std::size_t>(s)];
    if (split.sequences == 0) continue;
    std::string name = to_string(static_cast<Split>(s));
    name.resize(12, ' ');
    line(name + core::counted(split.sequences, "sequence") + ", " + core::counted(split.tokens, "token") +
         " (mean length " +
         core::format_number(static_cast<double>(split.tokens) / static_cast<double>(split.sequences), 3) +
         ", longest " + std::to_string(split.longest) + "), " + core::counted(split.shards, "shard"));
  }
  if (!summary.label_names.empty())
    line("labels      " + core::with_commas(static_cast<std::int64_t>(summary.label_names.size())));
  const double tokens = std::max<double>(1, static_cast<double>(summary.words_tokens));
  line("vocabulary  " + core::counted(summary.vocabulary_size, "piece") + "; unknown words " +
       core::format_number(100 * static_cast<double>(summary.unknown) / tokens, 2) + "% of the tokens; " +
       core::counted(summary.truncated, "sequence") + " cut to " + std::to_string(config.tokenizer.max_tokens) +
       " tokens");
  line("time        " + core::format_duration(summary.seconds) + ", of it reading and tokenizing " +
       core::format_duration(summary.tokenize_seconds) + " (" +
       core::format_metric(static_cast<double>(summary.text_bytes) / std::max(1e-9, summary.tokenize_seconds)) +
       "B of text a second)");
  line("written to  " + config.output.directory);
  return text;
}

}  // namespace bert_hpc::prep
