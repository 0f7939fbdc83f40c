// The report: what a run replaces, and its results.
#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/prepare.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "bert_hpc/prep/summary.hpp"
#include "ownership.hpp"

namespace bert_hpc::prep {

using core::Error;

namespace {

constexpr std::size_t max_keys = 6;  // shown

/// The lines of resolved_toml() as "[table] key" and the value.
std::map<std::string, std::string> keyed_lines(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string line, table;
  while (std::getline(lines, line)) {
    const auto equals = line.find(" = ");
    if (line.starts_with('[')) {
      table = line + ' ';
    } else if (equals != std::string::npos) {
      keys[table + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return keys;
}

/// The values of an earlier run that differ now, as "[table] key"; nothing if its prep.toml cannot be read.
std::optional<std::vector<std::string>> changed_keys(const PrepConfig& config) {
  try {
    PrepConfig earlier = read_prep_config(config.output.directory + "/prep.toml", {});
    earlier.output.directory = config.output.directory;  // it was perhaps named otherwise
    const auto before = keyed_lines(resolved_toml(earlier)), now = keyed_lines(resolved_toml(config));
    std::vector<std::string> changed;
    for (const auto& [key, value] : now) {
      const auto found = before.find(key);
      if (found == before.end() || found->second != value) changed.push_back(key);
    }
    for (const auto& [key, value] : before) {
      if (!now.contains(key)) changed.push_back(key);
    }
    return changed;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string describe_replaced(const PrepConfig& config) {
  const auto count = static_cast<std::int64_t>(shard_names(config.output.directory).size());
  if (count == 0) return {};
  std::string line = core::counted(count, "shard") + " of an earlier run in " + config.output.directory;
  const auto changed = changed_keys(config);
  if (!changed) return line + ", whose prep.toml is missing or cannot be read";
  if (changed->empty()) return line + ", made with the same input file";
  const bool all = changed->size() <= max_keys;
  std::vector<std::string> shown(changed->begin(), all ? changed->end() : changed->begin() + max_keys);
  if (!all) shown.push_back("others");
  return line + ", made with another input file: it differs in " + core::listed(shown, "and", false);
}

namespace {

/// What a summary adds to the reason why rows are rejected.
std::string particulars(RowStatus status, const Summary& summary) {
  const bool says_more = status == RowStatus::missing_column || status == RowStatus::unreadable ||
                         status == RowStatus::extra_columns || status == RowStatus::no_number;
  if (says_more) return " (the first is " + summary.first_rejects[static_cast<std::size_t>(status)] + ")";
  if (status == RowStatus::unlisted_label) return ": " + labels_text(summary.unlisted_labels);
  return "";
}

/// "train 1,200, 31 of them without an answer; validation 80, …"; "" where answers are not known.
std::string questions_text(const std::array<AnswerCounts, split_count>& answers) {
  std::string text;
  for (std::size_t s = 0; s < answers.size(); ++s) {
    if (answers[s].questions == 0) continue;
    text +=
        (text.empty() ? "" : "; ") + std::string(to_string(static_cast<Split>(s))) + ' ' +
        core::with_commas(answers[s].questions) + ", " +
        (answers[s].unanswerable == 0 ? "all with" : core::with_commas(answers[s].unanswerable) + " of them without") +
        " an answer";
  }
  return text;
}

}  // namespace

std::string describe(const Summary& summary, const PrepConfig& config) {
  std::string text;
  const auto line = [&text](const std::string& words) { text += words + '\n'; };
  const auto& status = summary.by_status;
  const std::int64_t kept = status[0] + status[1] + status[2];
  const std::int64_t not_sampled = status[static_cast<std::size_t>(RowStatus::not_sampled)];
  line("rows        " + core::with_commas(summary.rows) + " read, " + core::with_commas(kept) + " kept, " +
       (not_sampled > 0 ? core::with_commas(not_sampled) + " not in the sample, " : "") +
       core::with_commas(summary.rows - kept - not_sampled) + " rejected (see rejects.tsv)");
  for (int s = split_count; s < row_status_count; ++s) {
    if (static_cast<RowStatus>(s) == RowStatus::not_sampled) continue;
    if (const std::int64_t count = status[static_cast<std::size_t>(s)]; count > 0) {
      line("            " + core::with_commas(count) + ": " + reason(static_cast<RowStatus>(s)) +
           particulars(static_cast<RowStatus>(s), summary));
    }
  }
  if (summary.skipped_lines > 0) {
    line("lines       " + core::counted(summary.skipped_lines, "line") +
         " without words skipped: comments, and of CoNLL-U multiword tokens and empty nodes");
  }
  for (int s = 0; s < split_count; ++s) {
    const SplitSummary& split = summary.splits[static_cast<std::size_t>(s)];
    if (split.sequences == 0) continue;
    std::string name = to_string(static_cast<Split>(s));
    name.resize(12, ' ');
    line(name + core::counted(split.sequences, "sequence") + ", " + core::counted(split.tokens, "token") +
         (split.queries > 0 ? " of " + core::counted(split.queries, "query", "queries") +
                                  (config.has_labels() ? ", " + core::with_commas(split.answerable) +
                                                             " of them with a relevant candidate"
                                                       : "")
                            : "") +
         " (mean length " +
         core::format_number(static_cast<double>(split.tokens) / static_cast<double>(split.sequences), 3) +
         ", longest " + std::to_string(split.longest) + "), " + core::counted(split.shards, "shard"));
  }
  if (const std::string words = questions_text(summary.answers); !words.empty()) line("questions   " + words);
  if (!summary.labels.empty()) {
    line("labels      " + core::with_commas(std::ssize(summary.labels)) + ": " + labels_text(summary.labels));
  }
  if (!config.source.sentence.empty()) {
    line("sentences   words whose rows have the same \"" + core::printable(config.source.sentence, 40) +
         "\", or none behind one, are a sentence");
  }
  if (config.wants_labels() && !config.has_labels())
    line("labels      none: these shards are for [run] mode = \"predict\" alone");
  const double tokens = std::max<double>(1, static_cast<double>(summary.tokens.tokens));
  const tokenize::TokenizerKind& kind = config.tokenizer_kind();
  std::string first_switch;
  if (!kind.keys.empty()) {
    const char* const name = kind.keys.front().name;
    first_switch =
        std::string(name) + (resolved(kind, config.tokenizer.settings).at(name) ? " = true; " : " = false; ");
  }
  const std::string unknown = core::format_number(100 * static_cast<double>(summary.tokens.unknown) / tokens, 2);
  line("vocabulary  " + core::counted(summary.vocabulary_size, "token") + "; " + first_switch +
       (kind.knows_all_text ? "" : "[UNK] " + unknown + "% of the tokens; ") +
       (config.pairs_documents() ? "passages cut so that pairs have at most "
                                 : core::counted(summary.tokens.truncated, "sequence") + " truncated to ") +
       std::to_string(config.tokenizer.max_tokens) + " tokens");
  if (config.tokenizer.doc_stride && summary.tokens.cut_into_windows > 0) {
    line("windows     " + core::counted(summary.tokens.cut_into_windows, "row") + " longer than " +
         std::to_string(config.tokenizer.max_tokens) + " tokens became several sequences, which have the row's number");
  }
  line("time        " + core::format_duration(summary.seconds) + "; reading and tokenizing " +
       core::format_duration(summary.tokenize_seconds) + " (" +
       core::format_metric(static_cast<double>(summary.tokens.text_bytes) / std::max(1e-9, summary.tokenize_seconds)) +
       "B/s)");
  line("written to  " + config.output.directory);
  return text;
}

}  // namespace bert_hpc::prep
