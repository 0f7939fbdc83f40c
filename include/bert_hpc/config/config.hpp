// Everything that an input file of bert_hpc can say: one plain struct per table, one field per key, under the key's own
// name. Fields hold the defaults; an optional without a value is a key that was not given. visit_keys() is the one list
// of all keys, used to read, to write and to document them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/config/model_keys.hpp"
#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/core/number_setting.hpp"

namespace bert_hpc::config {

struct Run {
  std::string mode = "train";               ///< "train", "evaluate", "predict", "embed", "search"
  std::string directory;                    ///< results go here
  std::int64_t seed = 1;                    ///< of initial values, order, dropout and masking
  std::string kernels = "tuned";            ///< "tuned", "library", "portable": of matrix products
  std::string epilogues = "on";             ///< "on", "off", "all": what GPU builds fuse (ops/fusion.hpp)
  bool reproducible = false;                ///< the same bits on 1, 2 or 4 ranks and any micro-batch size
  std::string resume = "auto";              ///< "auto", "never", or the folder of a checkpoint
  std::optional<std::string> max_walltime;  ///< stop with a checkpoint in time; in Slurm's forms (config/walltime.hpp)
  std::optional<double>
      peak_gflops;               ///< of one rank's hardware, GFLOP/s: for the share of the peak in the timing table
  double watchdog_seconds = 60;  ///< a rank that gives no sign of life for so long is named; 0: never
  double watchdog_limit_seconds = 600;     ///< for so long, and the run ends; 0: never
  std::optional<std::string> machine;      ///< a machine description (config/machine_description.hpp), for estimates
  std::optional<std::int64_t> node_ranks;  ///< ranks on a node, instead of the description's
  /// Directory of a finished run, or a checkpoint's folder: parameters and optimizer states that this run begins with.
  std::optional<std::string> previous_phase;
  std::string phase_steps = "restart";  ///< "restart", "continue": count of steps, so schedule and data too
};

/// A key that is a word, a number (a list of one) or a list of numbers; unset if both are empty.
struct WordOrNumbers {
  std::string word;
  std::vector<double> numbers;

  bool has_value() const { return !word.empty() || !numbers.empty(); }
};

struct Task {
  std::string name;  ///< one of tasks::names()
  /// The keys of tasks (tasks::Key), by name; the task's own have their defaults after resolve().
  std::map<std::string, std::optional<double>> numbers;
  std::map<std::string, std::optional<bool>> switches;
  std::map<std::string, WordOrNumbers> lists;
  std::map<std::string, std::optional<std::string>> words;

  /// A number of the task's own; its default if the input does not set it.
  double number(const std::string& key) const;
  /// Without a value unless the input sets the number; for those without a default.
  std::optional<double> given_number(const std::string& key) const;
  /// Whether a switch is set to true, by the input or by its default in this mode.
  bool is_on(const std::string& key) const;
  /// Without a value unless the input sets the switch; for those without a default.
  std::optional<bool> given_switch(const std::string& key) const;
  WordOrNumbers list(const std::string& key) const;
  std::string word(const std::string& key) const;  ///< "" if it is not set
  bool is(const std::string& key, std::string_view value) const;
};

struct Data {
  std::vector<std::string> train, validation, test;  ///< shard files or globs
  std::vector<double> repeat;                        ///< times that an epoch has each entry of train; empty: once
  std::string order = "random";                      ///< "random", "file", "by_length"
  std::string padding = "none";                      ///< "none", "longest", "max"
  // Memory of a node for tokens: bytes (a list of one), or the word "auto", a share of the node's memory.
  std::vector<double> cache;
  std::string cache_word = "auto";
};

struct Batch {
  std::int64_t global = 32;                                        ///< sequences per update, over all ranks
  std::optional<std::int64_t> micro_tokens, micro, micro_batches;  ///< at most one; none: a rank's share at once
  // Planned memory of a rank, of which micro-batches take as much as fits: bytes (a list of one), or the word "auto":
  // what the device or the node has. Both empty: no budget. Not with one of the three.
  std::vector<double> memory;
  std::string memory_word;
  std::int64_t chunks = 0;  ///< parts of a batch with a separate reduction; 0: as the layout needs
  bool drop_last = false;   ///< leave out the last, smaller batch of an epoch
  // Warm-up of the batch size: from `warmup_start` sequences to `global`, over tokens without padding or over steps.
  std::optional<std::int64_t> warmup_start;      ///< none: all updates have `global` sequences
  std::optional<std::int64_t> warmup_increment;  ///< warmup_start after resolve() if that is given
  std::optional<double> warmup_tokens;           ///< one of these two
  std::optional<std::int64_t> warmup_steps;

  bool has_memory() const { return !memory.empty() || !memory_word.empty(); }
};

struct Optimizer {
  std::string name;                        ///< of `known`
  std::optional<double> learning_rate;     ///< the peak; training needs it
  std::vector<core::NumberSetting> own;    ///< keys of this optimizer alone, with their values
  double max_gradient_norm = 1.0;          ///< 0: no clipping
  std::string decay = "decoupled";         ///< "decoupled", "coupled", "independent"
  std::int64_t max_skipped_steps = 10;     ///< in a row, whose loss or gradient is not finite; one more ends the run
  std::vector<core::NamedSettings> known;  ///< optimizers that the program has, the default first; no key
  std::string owner;                       ///< whose keys `own` are; no key
};

struct Schedule {
  std::string name = "linear";  ///< "linear", "cosine", "polynomial", "constant", "warmup_stable_decay"
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_ratio;  ///< of all steps; 0 after resolve() if training has neither
  // One of three:
  std::optional<double> epochs, tokens;  ///< tokens: of the training data, without padding
  std::optional<std::int64_t> steps;
  std::optional<double> warmup_tokens, decay_tokens;  ///< beside `tokens`, instead of steps and ratio
  std::optional<double> power;                        ///< polynomial; 1 after resolve()
  /// polynomial, warmup_stable_decay: last rate over the peak; 0 after resolve()
  std::optional<double> end_factor;
  // warmup_stable_decay:
  std::optional<std::int64_t> decay_steps;
  std::optional<double> decay_ratio;  ///< of all steps; 0.1 after resolve() if there is neither
  std::optional<std::string> decay;   ///< "linear", "1-sqrt"; linear after resolve()
};

struct Parallel {
  std::int64_t data = 0, pipeline = 1, tensor = 1;  ///< ranks in each direction; 0: what is left
  std::string pipeline_schedule = "1f1b";           ///< "gpipe", "1f1b", "interleaved", "zb_h1"
  std::int64_t virtual_stages = 1;                  ///< parts of the model on each stage; more for "interleaved"
  /// Blocks of each part, pipeline · virtual_stages multiples of 0.5 (a block's attention or its feed-forward); empty:
  std::vector<double> balance = {};
  std::string balance_by = "cost";  ///< "cost" or "measured": the key `balance` takes these words too
  /// Sharded over data: 0 nothing, 1 optimizer states and the update's work (in as many messages), 2 gradients too.
  std::int64_t zero = 1;
  bool offload = false;               ///< optimizer states and updates in host memory; with zero
  bool allow_shared_devices = false;  ///< several ranks on one GPU: slow, for tests
};

struct Precision {
  std::string compute = "fp32";      ///< "bf16", "fp16", "fp8", "int8": how activations are stored, what products read
  bool is_given = false;             ///< whether the input sets `compute`
  std::optional<double> loss_scale;  ///< fp16: a fixed one; none: found on the way
  std::string weight_gradients = "auto";  ///< "auto", "bf16", "fp32": how gradients of the blocks' weights are stored
};

struct Evaluation {
  std::optional<std::int64_t> every_steps,
      every_epochs;                      ///< at most one; each epoch after resolve() if there is data
  std::optional<std::string> best;       ///< metric on the validation data that decides which model is kept
  std::optional<std::int64_t> patience;  ///< stop after so many evaluations without a better one
};

struct Checkpoint {
  std::optional<std::int64_t> every_steps;
  std::optional<double> every_minutes;  ///< if neither is given: app::checkpoint_interval()
  std::int64_t keep = 2;                ///< number of newest ones, beside those of `latest` and `best`
  bool at_end = false;                  ///< of the last step too, for a next phase
};

struct Log {
  std::int64_t every_steps = 10;
  std::string progress = "auto";  ///< "auto", "bar", "lines", "none"
  bool tensorboard = false;       ///< the training curves in event files too, in RUN/tensorboard
  bool trace = false;             ///< timelines of a few steps to trace.json, and of a simulated one
  bool profile = false;           ///< time and work of each kind of call in a few steps, in metrics.h5
};

struct Predictions {
  bool probabilities = false;  ///< token_classification: of the predicted tag, in predictions.conll
};

/// Mode "embed".
struct Embed {
  /// "cls", "mean", "max", "last": an embedding a sequence; "tokens". None, until the model's folder is read, which may
  /// say (app/engine/sentence_modules.hpp).
  std::optional<std::string> pooling;
  std::optional<std::int64_t> layer;       ///< block whose result is taken, from 1; or from -1, the last one
  std::optional<std::int64_t> dimensions;  ///< the first so many; none: all
  std::optional<bool> normalize;           ///< to length 1; none as for pooling
  std::string type = "fp32";               ///< "fp32", "fp16", "bf16", "int8": in the files
  std::string compression = "none";        ///< "none", "gzip"
  bool operator==(const Embed&) const = default;
};

/// Mode "search".
struct Search {
  std::vector<std::string> queries;   ///< files of embeddings, or globs
  std::vector<std::string> corpus;    ///< the same; empty: those of queries
  std::int64_t top_k = 100;           ///< documents of each query
  std::string similarity = "cosine";  ///< "cosine", "dot"
  std::optional<std::string> qrels;   ///< judgements; none: the rows of pairs say what is relevant
  bool operator==(const Search&) const = default;
};

/// Words of [distill] losses between hidden states and between attention scores; those between outputs are the tasks'.
inline constexpr const char *hidden_squares_word = "hidden_mse", *hidden_cosine_word = "hidden_cosine",
                            *attention_squares_word = "attention_mse";

/// A training beside a teacher.
struct Distill {
  // One of the next two; none: no distillation.
  std::optional<std::string> teacher;         ///< a Hugging Face folder
  std::optional<std::string> teacher_scores;  ///< predictions.h5 of mode "predict"
  std::optional<std::string> compute;  ///< as [precision] compute, of the teacher; resolved to that of the student
  std::vector<std::string> losses;     ///< of outputs, hidden states, attention; resolved to the task's first one
  double temperature = 2;              ///< of "kl"
  double alpha = 0.5;                  ///< share of these losses in a step's; 1 − alpha is the task's own
  std::vector<double> initialize;      ///< the teacher's block, from 0, with which each of the student's begins
  std::vector<double> layer_map;       ///< the teacher's block that each of the student's is compared with; empty: even
  bool match_embeddings = true;        ///< with "hidden_mse": the first block's input too
  bool operator==(const Distill&) const = default;
};

struct Debug {
  bool check_collectives = false;           ///< compare what all ranks enter, and report a mismatch instead of hanging
  double collective_timeout_seconds = 300;  ///< with check_collectives: how long a rank may be missing
  double step_delay_seconds = 0;            ///< added to each step, for trying out what happens in long ones
  std::int64_t parameter_hash_every = 0;    ///< steps between comparisons of the replicas' parameters; 0: never
};

struct Config {
  Run run;
  Model model;
  Task task;
  Data data;
  Batch batch;
  Optimizer optimizer;
  Schedule schedule;
  Parallel parallel;
  Precision precision;
  Evaluation evaluation;
  Checkpoint checkpoint;
  Log log;
  Predictions predictions;
  Embed embed;
  Search search;
  Distill distill;
  Debug debug;

  bool trains() const { return run.mode == "train"; }
  bool embeds() const { return run.mode == "embed"; }
  bool searches() const { return run.mode == "search"; }
  bool distills() const { return distill.teacher || distill.teacher_scores; }
  /// Whether a loss of this word, as hidden_squares_word, is among those of a distillation.
  bool distills_by(std::string_view word) const;
};

/// A rule that spans keys is broken: `key` is the "table.key" to look at, `text` complete sentences with the cure.
struct ConfigProblem {
  std::string key;
  std::string text;
  std::vector<std::string> alternatives = {};  ///< other keys that would do as well, if the key is missing
};

/// Defaults of a program that has these optimizers and families of models.
Config default_config(std::vector<core::NamedSettings> optimizers, std::vector<core::KnownFamily> families);

/// All keys with their types and limits. Reads into or writes from `config`.
void visit_keys(TomlKeys& toml, Config& config);

/// Chunks of a reproducible batch if the input does not set them: a power of two, at least 8 if the batch has as many
/// sequences, of at most 64 sequences each. It depends on the batch alone, so that every layout and every device adds
/// in the same order. Pure.
std::int64_t automatic_chunks(std::int64_t global_batch);
/// Minimum global batch, in sequences, with at least this many automatic chunks (a power of two). Pure.
std::int64_t least_batch_of(std::int64_t chunks);

/// Fills in defaults that depend on other keys. Doing it twice changes nothing.
void resolve(Config& config);

/// Rules that span keys. `replicas`: ranks in the data direction, 0 if unknown yet. Pure.
std::vector<ConfigProblem> validate(const Config& config, int replicas);

/// Throws Error(input) with all that validate() finds.
void require_valid(const Config& config, int replicas);

/// An input as far as it could be read, keys that could not be at their defaults, and every problem of the text, the
/// overrides and validate(…, 0).
struct ReadConfig {
  Config config;
  core::ProblemList problems;
};
/// The resolved configuration of an input's text with overrides ("table.key=VALUE"); `name` is what messages call the
/// input.
ReadConfig read_config_text(const std::string& text, const std::string& name, const std::vector<std::string>& overrides,
                            const Config& defaults = {});

/// The text of RUN/input.toml: every key with its value, in a fixed order; read_config_text() reads back the same.
std::string to_toml(const Config& config);

}  // namespace bert_hpc::config
