#include "app/embedding_run.hpp"

#include <algorithm>
#include <filesystem>

#include "app/engine/model_loading.hpp"
#include "app/report/describe.hpp"
#include "app/report/results.hpp"
#include "app/run/collective.hpp"
#include "app/run_start.hpp"
#include "app/session.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
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

/// What a split's embeddings depend on. Collective.
EmbeddingIdentity identity_of(const RunContext& context, const Session& session, const data::ShardReader& reader,
                              const std::string& split) {
  const config::Config& input = context.input;
  const std::string& tokenizer_hash = reader.info().tokenizer_hash;
  std::string model_hash;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    model_hash = folder_hash(*input.model.pretrained);
    if (input.model.lora.adapter) model_hash += '+' + folder_hash(*input.model.lora.adapter);
  });
  model_hash = context.world.broadcast(model_hash, 0);
  return {{"split", split},
          {"model", *input.model.pretrained},
          {"model_hash", model_hash},
          {"tokenizer_hash", tokenizer_hash.empty() ? "unknown" : tokenizer_hash},
          {"data_hash", core::hash_of_lines(reader.seals())},
          {"pooling", input.embed.pooling},
          {"layer", std::to_string(session.model->config.num_hidden_layers)},
          {"dimensions", std::to_string(session.embedding_format().dimensions)},
          {"normalize", input.embed.normalize ? "true" : "false"},
          {"type", input.embed.type},
          {"compression", input.embed.compression},
          {"compute", input.precision.compute}};
}

void embed(Session& session, Results& results, const RunContext& context) {
  const std::string folder = context.input.run.directory + "/embeddings";
  double sequences = 0;
  for (auto& [split, embedder] : session.embedders) {
    const double begin = context.seconds();
    const EmbeddingIdentity identity = identity_of(context, session, embedder->reader(), split);
    const Embedder::Written written =
        embedder->write(folder, split, identity, [&context] { return context.world.any(context.requests.stop()); });
    if (!written.finished) {
      context.log.info("stopped " + context.requests.asked() + ": submit it again to continue with the next file");
      results.stop();
      throw Stop{core::ExitCode::stopped};
    }
    context.log.info(split + ": " + core::counted(written.sequences, "sequence") + " in " +
                     core::counted(written.files, "file") +
                     (written.kept > 0 ? ", " + std::to_string(written.kept) + " of an earlier start" : "") + ", " +
                     core::format_duration(context.seconds() - begin));
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
  if (session.estimates()) {
    report_load(session.load_notes, context);
    note_directory(context.log, directory_note(context));
    context.log.info("valid: nothing was computed");
    return;
  }
  session.connect();
  report_load(load_values(*session.model, context.input), context);
  leave_if_asked(context);
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  Results results(context, lock.get(), *session.model, session.sets.hdf5);
  start_reading(session.sets);
  alone_ends_all(context.world.rank(), context.failure, [&] { embed(session, results, context); });
}

}  // namespace bert_hpc::app
