#include "app/engine/model_export.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/engine/low_rank.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 20;  // 4 MiB

/// A rank that sends its part of a parameter.
struct Holder {
  int rank = 0;
  core::ParameterSpec part;
};

struct Owned {
  std::string name;
  std::vector<std::int64_t> shape;  // of the whole
  std::vector<Holder> holders;      // by the index of their parts
};

/// Parameters that a file holds: those of the model with what adapters add, or of the adapters and the head, if it was
/// trained beside them or the base model lacks it. Copies are left out.
enum class Part { model, adapter };

bool belongs(const core::ParameterSpec& spec, Part part, const std::set<std::string>& head) {
  if (!spec.copy_of.empty()) return false;
  return part == Part::model ? !spec.adapter : spec.trainable || head.contains(spec.name);
}

std::vector<Owned> owners(const ModelInstance& model, Part of) {
  std::vector<Owned> all;
  const int ranks = model.grid.tensor;
  const std::set<std::string> head = model.head_is_new ? head_names(model) : std::set<std::string>();
  for (std::size_t part = 0; part < model.parts.size(); ++part) {
    const int stage = static_cast<int>(part) % model.grid.pipeline;
    const std::size_t first = all.size();
    for (int t = 0; t < ranks; ++t) {
      const int rank = comm::rank_at(model.grid, {.data = 0, .pipeline = stage, .tensor = t});
      std::size_t next = first;
      for (core::ParameterSpec& spec : model.parameters_of(model.parts[part], {t, ranks})) {
        if (!belongs(spec, of, head)) continue;
        if (t == 0) all.push_back({spec.name, core::whole_shape(spec.shape, spec.shard), {}});
        Owned& owned = all[next++];
        if (t == 0 || !spec.shard.is_whole()) owned.holders.push_back({rank, std::move(spec)});
      }
    }
  }
  return all;
}

/// Puts them in the order in which a file holds them.
void sort(std::vector<Owned>& parameters, const model::WeightTable& table) {
  std::sort(parameters.begin(), parameters.end(),
            [&table](const Owned& a, const Owned& b) { return table.is_before(a.name, b.name); });
}

std::size_t find_a(const core::ParameterStore& store, const std::string& layer) {
  return static_cast<std::size_t>(layers::find_adapter_a(store, layer));
}

/// In host memory: the parameter's own memory, or `copy`, which gets a copy, with what its adapter adds to it.
std::span<const float> values_of(ModelInstance& model, const std::string& name, std::vector<float>& copy) {
  const core::ParameterStore& store = model.parameters;
  const auto host = [&store](const std::string& parameter, std::vector<float>& staging) {
    const core::Tensor<const float> value = store.value(store.find(parameter));
    const std::span<const float> all(value.data, static_cast<std::size_t>(value.size()));
    return core::Tensor<const float>(core::on_host(all, staging).data(), value.rows, value.columns);
  };
  const core::Tensor<const float> values = host(name, copy);
  const auto size = static_cast<std::size_t>(values.size());
  const std::optional<std::string> layer = model::adapted_layer(model.plan, name);
  if (!layer) return {values.data, size};
  if (values.data != copy.data()) copy.assign(values.data, values.data + size);
  std::vector<float> staging_a, staging_b, staging_m, staging_n;
  model::AdapterValues adapter = {.scale = static_cast<float>(model.plan.low_rank->scale()),
                                  .a = host(store.slices()[find_a(store, *layer)].name, staging_a),
                                  .b = host(layers::adapter_b(*layer), staging_b)};
  if (model.plan.low_rank->magnitudes) {
    adapter.magnitudes = host(layers::adapter_magnitude(*layer), staging_m).data;
    const float* const norms = model.kernels.factors().of(store.find(name), 1, adapter.scale).norms;
    adapter.norms = core::on_host(std::span(norms, static_cast<std::size_t>(values.rows)), staging_n).data();
  }
  model::merge_adapter(adapter, {copy.data(), values.rows, values.columns});
  return {copy.data(), size};
}

void send_all(ModelInstance& model, comm::Communicator& world, const std::vector<Owned>& parameters) {
  std::vector<float> staging;
  for (const Owned& parameter : parameters) {
    for (const Holder& holder : parameter.holders) {
      if (holder.rank != world.rank()) continue;
      const std::span<const float> values = values_of(model, parameter.name, staging);
      for (std::size_t begin = 0; begin < values.size(); begin += piece_elements) {
        const std::size_t count = std::min<std::size_t>(piece_elements, values.size() - begin);
        world.send(std::as_bytes(values.subspan(begin, count)), 0);
      }
    }
  }
}

/// What the other ranks send, in order; also after the caller has stopped writing.
class Arrivals {
 public:
  Arrivals(comm::Communicator& world, const std::vector<Owned>& parameters) : world_(world) {
    for (const Owned& parameter : parameters) {
      for (const Holder& holder : parameter.holders) {
        if (holder.rank == 0) continue;
        const std::int64_t elements = core::elements_of(holder.part.shape);
        for (std::int64_t begin = 0; begin < elements; begin += piece_elements) {
          pieces_.push_back({holder.rank, std::min(piece_elements, elements - begin)});
        }
      }
    }
    if (!pieces_.empty()) buffer_.resize(piece_elements);
  }

  std::span<const float> next() {
    const Piece& piece = pieces_.at(next_++);
    const std::span<float> values(buffer_.data(), static_cast<std::size_t>(piece.elements));
    world_.receive(std::as_writable_bytes(values), piece.rank);
    return values;
  }
  void drain() {
    while (next_ < pieces_.size()) next();
  }

 private:
  struct Piece {
    int rank = 0;
    std::int64_t elements = 0;
  };
  comm::Communicator& world_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::vector<float> buffer_;
};

/// On rank 0: the elements of a parameter from `begin` on, as they come. Shards by rows follow each other in the whole,
/// so they pass through; those by columns are put together first.
class Source {
 public:
  Source(ModelInstance& model, Arrivals& arrivals) : model_(model), arrivals_(arrivals) {}

  std::span<const float> fetch(const Owned& parameter, std::int64_t begin) {
    if (parameter.holders.front().part.shard.dimension == 1) return put_together(parameter);
    for (const Holder& holder : parameter.holders) {
      const std::int64_t first = core::runs_of(holder.part.shape, holder.part.shard).first;
      if (begin >= first + core::elements_of(holder.part.shape)) continue;
      return holder.rank == 0 ? own(parameter).subspan(static_cast<std::size_t>(begin - first)) : arrivals_.next();
    }
    return {};
  }

 private:
  std::span<const float> own(const Owned& parameter) { return values_of(model_, parameter.name, staging_); }
  std::span<const float> put_together(const Owned& parameter) {
    whole_.resize(static_cast<std::size_t>(core::elements_of(parameter.shape)));
    for (const Holder& holder : parameter.holders) {
      std::span<const float> part = own_or_received(parameter, holder);
      core::put_shard(holder.part.shape, holder.part.shard, part, whole_);
    }
    return whole_;
  }
  std::span<const float> own_or_received(const Owned& parameter, const Holder& holder) {
    if (holder.rank == 0) return own(parameter);
    part_.clear();
    while (static_cast<std::int64_t>(part_.size()) < core::elements_of(holder.part.shape)) {
      const std::span<const float> values = arrivals_.next();
      part_.insert(part_.end(), values.begin(), values.end());
    }
    return part_;
  }

  ModelInstance& model_;
  Arrivals& arrivals_;
  std::vector<float> whole_, part_, staging_;
};

using Write = std::function<void(std::vector<model::TensorToWrite>)>;
/// The piece of a parameter from an element on, from the source.
using Fetch = std::function<std::span<const float>(Source& source, const Owned& parameter, std::int64_t begin)>;

/// Collective over all ranks: rank 0 gathers the parameters as `write` asks for the tensors of a file that hold them.
void gather(ModelInstance& model, comm::Communicator& world, std::vector<Owned> parameters,
            const model::WeightTable& table, const Fetch& fetch, const Write& write) {
  std::exception_ptr failure;
  sort(parameters, table);
  if (world.rank() == 0) {
    Arrivals arrivals(world, parameters);
    Source source(model, arrivals);
    std::vector<model::TensorToWrite> tensors;
    for (const Owned& parameter : parameters) {
      model::TensorToWrite tensor{.name = parameter.name, .shape = parameter.shape};
      tensor.fetch = [&](std::int64_t begin) { return fetch(source, parameter, begin); };
      tensors.push_back(std::move(tensor));
    }
    try {
      write(model::as_stored(std::move(tensors), table));
    } catch (const std::exception&) {  // the others must be rid of theirs before all can talk about it
      failure = std::current_exception();
    }
    arrivals.drain();
  } else {
    send_all(model, world, parameters);
  }
  collectively(world, [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

/// Pieces of the source, those of the head in the labels' unit. Memory for these is `folded`.
Fetch in_labels_unit(const ModelInstance& model, std::vector<float>& folded) {
  return [&](Source& source, const Owned& parameter, std::int64_t begin) {
    const std::int64_t size =
        std::accumulate(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>());
    return objectives::head_in_labels_unit(model.output_rules.scales, model.plan.head.classifier,
                                           {parameter.name, size, begin, source.fetch(parameter, begin)}, folded);
  };
}

}  // namespace

void export_model(ModelInstance& model, comm::Communicator& world, const std::string& folder,
                  const std::string& tokenizer_folder, const model::NamedTexts& more_files) {
  std::vector<float> folded;
  const Fetch fetch = in_labels_unit(model, folded);
  // Norms of rows that tensor ranks share out are collective: not while rank 0 asks for one tensor after the other.
  if (model.plan.low_rank) model.kernels.factors().renew(static_cast<float>(model.plan.low_rank->scale()));
  const model::WeightTable& table = model.plan.weights;
  gather(model, world, owners(model, Part::model), table, fetch, [&](std::vector<model::TensorToWrite> tensors) {
    model::NamedTexts files;
    std::error_code ignored;
    if (!tokenizer_folder.empty() && !std::filesystem::equivalent(folder, tokenizer_folder, ignored)) {
      files = tokenize::copied_tokenizer_files(tokenizer_folder);
    }
    files.insert(files.end(), more_files.begin(), more_files.end());
    if (!tokenizer_folder.empty()) {
      for (auto& file : tokenize::lacking_tokenizer_files(tokenizer_folder)) files.push_back(std::move(file));
    }
    model::save_hf_folder(folder, model.config, model.objective.head, std::move(tensors), files);
  });
}

void export_adapter(ModelInstance& model, comm::Communicator& world, const std::string& folder,
                    const std::string& base_model) {
  model::AdapterFacts facts{.base_model = base_model,
                            .base_hash = base_hash(model),
                            .settings = *model.plan.low_rank,
                            .trained = {},
                            .class_suffix = model.objective.head.class_suffix,
                            .config = model::hf_config_text(model.config, model.objective.head)};
  facts.settings.targets = model::target_modules(model.plan);
  for (const model::BlockLayer& layer : model::block_layers(model.plan)) {
    if (layer.adapted && model.plan.weights.source_of(layer.name + ".weight").transposed)
      facts.stored_transposed = true;
  }
  const std::vector<Owned> parameters = owners(model, Part::adapter);
  std::vector<std::string> names;
  for (const Owned& parameter : parameters) {
    names.push_back(parameter.name);
    if (!parameter.holders.front().part.adapter) facts.trained.push_back(parameter.name);
  }
  std::vector<float> folded;
  const Fetch fetch = in_labels_unit(model, folded);
  gather(
      model, world, parameters, model::peft_table(names, model.plan.weights), fetch,
      [&](std::vector<model::TensorToWrite> tensors) { model::save_peft_adapter(folder, facts, std::move(tensors)); });
}

}  // namespace bert_hpc::app
