#include "batch_rules.hpp"

#include <bit>
#include <string>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::config {
namespace {

constexpr std::int64_t most_sizes = 100'000;  // of batches in a warm-up

using std::to_string;

class BatchRules {
 public:
  BatchRules(const Config& config, int replicas) : config_(config), batch_(config.batch), replicas_(replicas) {}

  std::vector<ConfigProblem> check() {
    check_micro_batches();
    check_chunks();
    check_keys_of_warmup();
    if (batch_.warmup_start) check_sizes_of_warmup(*batch_.warmup_start);
    return std::move(problems_);
  }

 private:
  void rule(bool holds, const char* key, const std::string& text, std::vector<std::string> alternatives = {}) {
    if (!holds) problems_.push_back({std::string("batch.") + key, "[batch] " + text, std::move(alternatives)});
  }

  void check_micro_batches() {
    const Batch& b = batch_;
    const int sizes = int{b.micro_tokens.has_value()} + int{b.micro.has_value()} + int{b.micro_batches.has_value()};
    rule(sizes <= 1, b.micro_tokens ? "micro_tokens" : "micro",
         "micro_tokens, micro and micro_batches exclude each other: keep one of them.");
    const bool budget = b.has_memory();
    rule(sizes == 0 || !budget, "memory",
         "memory finds the size of micro-batches: remove micro_tokens, micro or micro_batches, or memory.");
    rule(b.memory.size() <= 1, "memory", "memory must be \"auto\" or one number of bytes.");
    rule(!budget || (b.chunks == 0 && !config_.run.reproducible), "memory",
         "memory does not go with [run] reproducible and [batch] chunks, whose chunks are the micro-batches.");
  }

  void check_chunks() {
    const Batch& b = batch_;
    rule(b.chunks <= b.global, "chunks",
         "chunks = " + to_string(b.chunks) + " is more than global = " + to_string(b.global) +
             ": a chunk holds at least one sequence.");
    const bool is_power = b.chunks > 0 && std::has_single_bit(static_cast<std::uint64_t>(b.chunks));
    rule(!config_.run.reproducible || b.chunks == 0 || is_power, "chunks",
         "chunks = " + to_string(b.chunks) +
             " must be a power of two: [run] reproducible adds chunks along a binary tree.");
  }

  void check_keys_of_warmup() {
    const Batch& b = batch_;
    const bool has_length = b.warmup_tokens || b.warmup_steps;
    rule(!b.warmup_tokens || !b.warmup_steps, "warmup_steps",
         "warmup_tokens and warmup_steps are both given: keep one of them.");
    rule(!b.warmup_start || has_length, "warmup_tokens",
         "warmup_start needs the length of the warm-up: set warmup_tokens or warmup_steps.", {"batch.warmup_steps"});
    const char* const given = b.warmup_tokens ? "warmup_tokens" : b.warmup_steps ? "warmup_steps" : "warmup_increment";
    rule(b.warmup_start || (!has_length && !b.warmup_increment), given,
         std::string(given) + " needs the sequences of the first updates: set warmup_start, or remove it.");
    const Schedule& s = config_.schedule;
    rule(!b.warmup_tokens || !s.tokens || *b.warmup_tokens <= *s.tokens, "warmup_tokens",
         "warmup_tokens is more than [schedule] tokens: updates would never have global sequences.");
    rule(!b.warmup_steps || !s.steps || *b.warmup_steps <= *s.steps, "warmup_steps",
         "warmup_steps = " + to_string(b.warmup_steps.value_or(0)) + " is more than [schedule] steps = " +
             to_string(s.steps.value_or(0)) + ": updates would never have global sequences.");
  }

  void check_sizes_of_warmup(std::int64_t start) {
    const std::int64_t global = batch_.global, increment = batch_.warmup_increment.value_or(start);
    const std::string first = "warmup_start = " + to_string(start);
    rule(start < global, "warmup_start",
         first + " must be less than global = " + to_string(global) + ", to which updates grow.");
    rule(start >= replicas_, "warmup_start",
         first + " is less than the " + core::counted(replicas_, "replica") +
             " of the model (ranks / pipeline / tensor): each needs at least one sequence of an update.");
    const std::int64_t sizes = (global - start) / increment;
    rule(sizes <= most_sizes, "warmup_increment",
         "warmup_increment = " + to_string(increment) + " makes " + core::with_commas(sizes) +
             " sizes of updates: raise it, at most " + core::with_commas(most_sizes) + " are possible.");
  }

  const Config& config_;
  const Batch& batch_;
  int replicas_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace

std::vector<ConfigProblem> batch_problems(const Config& config, int replicas) {
  return BatchRules(config, replicas).check();
}

}  // namespace bert_hpc::config
