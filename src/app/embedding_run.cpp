#include "app/embedding_run.hpp"

#include <algorithm>
#include <filesystem>

#include "app/engine/model_loading.hpp"
#include "app/engine/sentence_modules.hpp"
#include "app/report/describe.hpp"
#include "app/report/results.hpp"
#include "app/run/collective.hpp"
#include "app/run_start.hpp"
#include "app/session.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::app {
namespace {

/// Hash of names and checksums of a folder's weights and configuration.
std::string folder_hash(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_model =
        entry.path().extension() == ".safetensors" || name == "config.json" || name == "adapter_config.json";
    if (!is_model) continue;
    lines.push_back(name + ' ' + std::to_string(io::file_checksum(entry.path().string(), core::ExitCode::files)));
  }
  std::sort(lines.begin(), lines.end());
  return core::hash_of_lines(lines);
}

/// Hash of the model that the run applies. Rank 0 reads the files.
std::string model_hash(const RunContext& context) {
  const config::Model& model = context.input.model;
  std::string hash;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    hash = folder_hash(*model.pretrained);
    if (model.lora.adapter) hash += '+' + folder_hash(*model.lora.adapter);
  });
  return context.world.broadcast(hash, 0);
}

/// What a split's embeddings depend on.
EmbeddingIdentity identity_of(const RunContext& context, const Session& session, const std::string& model_hash,
                              const std::string& split, const data::ShardReader& reader) {
  const config::Config& input = context.input;
  const std::string& tokenizer_hash = reader.info().tokenizer_hash;
  return {{"split", split},
          {"model", *input.model.pretrained},
          {"model_hash", model_hash},
          {"tokenizer_hash", tokenizer_hash.empty() ? "unknown" : tokenizer_hash},
          {"data_hash", core::hash_of_lines(reader.seals())},
          {"pooling", *input.embed.pooling},
          {"layer", std::to_string(session.model->config.num_hidden_layers)},
          {"dimensions", std::to_string(session.embedding_format().dimensions)},
          {"normalize", *input.embed.normalize ? "true" : "false"},
          {"type", input.embed.type},
          {"compression", input.embed.compression},
          {"compute", input.precision.compute}};
}

/// On rank 0. Makes the folder and removes files of splits that this run does not embed.
void prepare_folder(const Session& session, const std::string& folder) {
  io::make_directories(folder);
  for (const char* const split : {"train", "validation", "test"}) {
    const auto is_embedded = [&](const auto& embedder) { return embedder.first == split; };
    if (std::any_of(session.embedders.begin(), session.embedders.end(), is_embedded)) continue;
    remove_embeddings(folder, split, {});
  }
}

/// Rates of a split's embedding, for the log.
class EmbeddingProgress {
 public:
  EmbeddingProgress(const RunContext& context, std::string split, const data::ShardReader& reader)
      : context_(context), split_(std::move(split)), reader_(reader), begin_(context.seconds()), last_(begin_) {}

  /// A line each minute. `sequences` are done, some of them by an earlier start.
  void note(std::int64_t sequences) {
    if (first_ < 0) first_ = sequences;
    const double now = context_.seconds();
    constexpr double pause = 60;
    if (now - last_ < pause) return;
    last_ = now;
    const std::int64_t all = reader_.samples();
    const double left = (now - begin_) * static_cast<double>(tokens(sequences, all)) /
                        static_cast<double>(std::max<std::int64_t>(1, tokens(first_, sequences)));
    context_.log.info(split_ + ": " + core::with_commas(sequences) + " of " + core::counted(all, "sequence") +
                      rate(sequences) + ", " + core::format_duration(left) + " left");
  }
  /// The rate so far in words; nothing for data that an earlier start has done.
  std::string rate(std::int64_t sequences) const {
    if (first_ < 0 || first_ >= sequences) return "";
    return ", " + core::format_metric(static_cast<double>(tokens(first_, sequences)) / (context_.seconds() - begin_)) +
           " tokens/s";
  }

 private:
  std::int64_t tokens(std::int64_t from, std::int64_t to) const {
    return reader_.table().begin(to) - reader_.table().begin(from);
  }

  const RunContext& context_;
  std::string split_;
  const data::ShardReader& reader_;
  double begin_, last_;
  std::int64_t first_ = -1;  // sequences that were done when this start began to compute
};

void embed(Session& session, Results& results, const RunContext& context) {
  const std::string folder = context.input.run.directory + "/embeddings";
  const std::string hash = model_hash(context);
  collectively(context.world, [&] {
    if (context.world.rank() == 0) prepare_folder(session, folder);
  });
  double sequences = 0;
  for (auto& [split, embedder] : session.embedders) {
    const double begin = context.seconds();
    const EmbeddingIdentity identity = identity_of(context, session, hash, split, embedder->reader());
    EmbeddingProgress progress(context, split, embedder->reader());
    const Embedder::Written written = embedder->write(folder, split, identity, [&](std::int64_t done) {
      progress.note(done);
      return context.world.any(context.requests.stop());
    });
    if (!written.finished) {
      context.log.info("stopped " + agreed_stop_reason(context) + ": the same command continues with the next file");
      results.stop();
      throw Stop{core::ExitCode::stopped};
    }
    context.log.info(split + ": " + core::counted(written.sequences, "sequence") + " in " +
                     core::counted(written.files, "file") +
                     (written.kept > 0 ? ", " + std::to_string(written.kept) + " of an earlier start" : "") + ", " +
                     core::format_duration(context.seconds() - begin) + progress.rate(written.sequences));
    sequences += static_cast<double>(written.sequences);
  }
  results.record_ranks(context, context.device.name, session.memory());
  results.finish({{"samples", sequences}, {"seconds", context.seconds()}});
  context.log.info("embeddings in " + folder + " after " + core::format_duration(context.seconds()));
}

}  // namespace

void run_embedding(const RunContext& context) {
  SessionData data(context);
  Session session(context, data, false);
  session.describe({});
  warn_of_prompts(context, session.sets);
  if (session.estimates()) {
    report_load(session.load_notes, context);
    note_directory(context.log, directory_note(context));
    context.log.info(valid_input);
    return;
  }
  session.connect();
  report_load(load_values(*session.model, context.input), context);
  leave_if_asked(context);
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  Results results(context, lock.get(), facts_of(*session.model), session.sets.hdf5);
  start_reading(session.sets);
  alone_ends_all(context.world.rank(), context.failure, [&] { embed(session, results, context); });
}

}  // namespace bert_hpc::app
