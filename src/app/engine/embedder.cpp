#include "app/engine/embedder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "app/engine/data_sets.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::app {
namespace {

std::string file_name(const std::string& split, std::int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "-%05lld.h5", static_cast<long long>(number));
  return split + text;
}

data::BatchLoaderOptions with_steps_of(const EmbeddingCut& cut, data::BatchLoaderOptions options) {
  options.plan.global_batch = cut.sequences_of_step;
  return options;
}

/// Whether a file of this name is one of the split's, or was to become one.
bool is_of_split(std::string_view name, const std::string& split) {
  if (!name.starts_with(split + "-")) return false;
  name.remove_prefix(split.size() + 1);
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view end = name.substr(digits);
  return digits >= 5 && (end == ".h5" || end == io::name_beside(".h5"));
}

}  // namespace

void remove_embeddings(const std::string& folder, const std::string& split, const std::vector<std::string>& complete) {
  const std::vector<std::filesystem::path> there(std::filesystem::directory_iterator(folder), {});
  for (const std::filesystem::path& path : there) {
    const std::string name = path.filename().string();
    if (!is_of_split(name, split) || std::find(complete.begin(), complete.end(), name) != complete.end()) continue;
    std::filesystem::remove(path);
  }
}

EmbeddingCut embedding_cut(const EmbeddingFormat& format, std::int64_t hidden, double mean_length) {
  constexpr double bytes_of_step = 64 << 20, bytes_of_file = 256 << 20;
  constexpr std::int64_t least = 256;
  const double rows = format.of_tokens ? std::max(1.0, mean_length) : 1.0;
  const double fit = bytes_of_step / (rows * static_cast<double>(hidden) * sizeof(float));
  EmbeddingCut cut;
  cut.sequences_of_step =
      std::clamp(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max(1.0, fit)))), least,
                 most_embedded_at_once);
  const double stored = static_cast<double>(cut.sequences_of_step) * rows * static_cast<double>(format.dimensions) *
                        static_cast<double>(format.element_bytes());
  cut.steps_of_file = std::max<std::int64_t>(1, std::llround(bytes_of_file / stored));
  return cut;
}

Embedder::Embedder(ModelInstance& model, data::ShardReader& reader, const EmbeddingFormat& format,
                   data::BatchLoaderOptions options, std::mutex& hdf5)
    : model_(model),
      reader_(reader),
      format_(format),
      cut_(embedding_cut(format, model.outputs(), reader.info().mean_length())),
      loader_(reader, with_steps_of(cut_, std::move(options))),
      hdf5_(hdf5) {}

layers::BatchBounds Embedder::bounds() const {
  return model_bounds(loader_);
}

std::int64_t Embedder::width(std::int64_t sample) const {
  const std::int64_t rows = format_.of_tokens ? reader_.table().length(sample) : 1;
  return rows * model_.outputs();
}

/// Rows of the sequences [first, last).
std::int64_t Embedder::rows(std::int64_t first, std::int64_t last) const {
  return format_.of_tokens ? reader_.table().begin(last) - reader_.table().begin(first) : last - first;
}

std::int64_t Embedder::step_bytes() const {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < reader_.samples(); first += cut_.sequences_of_step) {
    most = std::max(most, rows(first, std::min(first + cut_.sequences_of_step, reader_.samples())));
  }
  constexpr std::int64_t growth = 2, steps = 2;  // of arrays; one is computed, one is written
  return steps * growth * most * model_.outputs() * static_cast<std::int64_t>(sizeof(float));
}

void Embedder::result(int micro_batch, model::Stage& stage, int slot) {
  if (model_.coordinates.tensor != 0) return;  // those ranks know the same
  const core::Tensor<float> all = stage.logits(slot).as<float>();
  const std::span<const float> outputs(all.data, static_cast<std::size_t>(all.size()));
  const std::span<const float> here = core::on_host(outputs, staging_);
  const auto number = static_cast<std::size_t>(micro_batch);
  const core::TokenRows& rows = loaded_->micro_batches[number].on_host.targets.rows;
  const int first = loaded_->plan.replica_begin[static_cast<std::size_t>(model_.coordinates.data)];
  const auto columns = static_cast<std::size_t>(all.columns);
  std::size_t s = 0;
  for (const core::PlannedSample& sample : loaded_->plan.micro_batch(first + micro_batch)) {
    const std::size_t row = format_.of_tokens ? static_cast<std::size_t>(rows.offsets[s]) : s;
    const std::span<float> kept = kept_.add(sample.index, width(sample.index));
    const std::span<const float> from = here.subspan(row * columns, kept.size());
    std::copy(from.begin(), from.end(), kept.begin());
    ++s;
  }
}

void Embedder::compute_step() {
  loaded_ = &loader_.next();
  passes_.clear();
  for (const data::LoadedMicroBatch& micro : loaded_->micro_batches) passes_.push_back({.batch = micro.batch});
  model_.pipeline().evaluate(model_.engine(), passes_, false, *this);
}

/// Begins to write the collected step, whose first sequence is `first`.
void Embedder::start_writing(std::shared_ptr<EmbeddingFile> file, std::int64_t first) {
  finish_writing();
  std::swap(kept_, written_);
  writing_ = std::async(std::launch::async, [this, file = std::move(file), first] {
    written_.deliver(
        first, [this](std::int64_t sample) { return width(sample); },
        [&](std::int64_t, std::span<const float> rows) { file->add(rows, model_.outputs()); });
  });
}

/// Waits for what this rank writes. Throws what went wrong there.
void Embedder::finish_writing() {
  if (writing_.valid()) writing_.get();
}

Embedder::Written Embedder::write(const std::string& folder, const std::string& split,
                                  const EmbeddingIdentity& identity, const std::function<bool(std::int64_t)>& give_up) {
  comm::Communicator& world = model_.groups().world;
  const std::int64_t steps = loader_.schedule().steps_per_epoch(), in_file = cut_.steps_of_file;
  const std::int64_t files = (steps + in_file - 1) / in_file;
  const auto first_of = [&](std::int64_t file) { return file * in_file * cut_.sequences_of_step; };
  std::vector<std::int32_t> is_there(static_cast<std::size_t>(files));
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::vector<std::string> complete;
    for (std::int64_t file = 0; file < files; ++file) {
      const std::string name = file_name(split, file);
      if (!is_complete(folder + "/" + name, identity, first_of(file), hdf5_)) continue;
      is_there[static_cast<std::size_t>(file)] = 1;
      complete.push_back(name);
    }
    remove_embeddings(folder, split, complete);
  });
  world.broadcast(std::as_writable_bytes(std::span(is_there)), 0);

  const auto finish_all = [&] { collectively(world, [this] { finish_writing(); }); };
  Written written{.files = static_cast<int>(files),
                  .kept = static_cast<int>(std::count(is_there.begin(), is_there.end(), 1))};
  for (std::int64_t number = 0; number < files; ++number) {
    if (is_there[static_cast<std::size_t>(number)] != 0) continue;
    const int writer = static_cast<int>(number % world.size());
    std::shared_ptr<EmbeddingFile> file;
    const auto on_writer = [&](const std::function<void()>& work) {
      collectively(world, [&] {
        if (world.rank() == writer) work();
      });
    };
    on_writer([&] {
      finish_writing();
      file = std::make_shared<EmbeddingFile>(folder + "/" + file_name(split, number), format_, identity, reader_,
                                             first_of(number), hdf5_);
    });
    const std::int64_t first_step = number * in_file;
    if (loader_.next_step() != first_step) loader_.restart(first_step);
    for (std::int64_t step = first_step; step < std::min(steps, first_step + in_file); ++step) {
      if (give_up(step * cut_.sequences_of_step)) {
        finish_all();
        return written;
      }
      compute_step();
      kept_.gather(world, writer);
      on_writer([&] { start_writing(file, step * cut_.sequences_of_step); });
    }
    on_writer([&] {
      finish_writing();
      writing_ = std::async(std::launch::async, [file] { file->close(); });
    });
  }
  finish_all();
  written.sequences = reader_.samples();
  written.finished = true;
  return written;
}

}  // namespace bert_hpc::app
