#include "bert_hpc/app/model_export.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/model/hf_weights.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 20;  // 4 MiB

/// A parameter and the rank that tells its values.
struct Owned {
  core::ParameterSpec spec;
  int rank = 0;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : spec.shape) product *= extent;
    return product;
  }
};

/// All parameters of the model, in the order in which a file holds them. Copies are left out.
std::vector<Owned> owners(const Assembly& assembly) {
  std::vector<Owned> all;
  for (std::size_t part = 0; part < assembly.parts.size(); ++part) {
    const int stage = static_cast<int>(part) % assembly.grid.pipeline;
    const int rank = comm::rank_at(assembly.grid, {.data = 0, .pipeline = stage, .tensor = 0});
    for (core::ParameterSpec& spec : assembly.parameters_of(assembly.parts[part])) {
      if (spec.copy_of.empty()) all.push_back({std::move(spec), rank});
    }
  }
  std::sort(all.begin(), all.end(), [](const Owned& a, const Owned& b) { return a.spec.name < b.spec.name; });
  return all;
}

std::span<const float> values_of(const core::ParameterStore& store, const std::string& name) {
  const core::Tensor<float> value = store.value(store.find(name));
  return {value.data, static_cast<std::size_t>(value.size())};
}

void send_all(const Assembly& assembly, comm::Communicator& world, const std::vector<Owned>& parameters) {
  for (const Owned& parameter : parameters) {
    if (parameter.rank != world.rank()) continue;
    const std::span<const float> values = values_of(assembly.parameters, parameter.spec.name);
    for (std::size_t begin = 0; begin < values.size(); begin += piece_elements) {
      const std::size_t count = std::min<std::size_t>(piece_elements, values.size() - begin);
      world.send(std::as_bytes(values.subspan(begin, count)), 0);
    }
  }
}

/// What the other ranks send, in order; also when nobody wants it any more.
class Arrivals {
 public:
  Arrivals(comm::Communicator& world, const std::vector<Owned>& parameters) : world_(world) {
    for (const Owned& parameter : parameters) {
      if (parameter.rank == 0) continue;
      for (std::int64_t begin = 0; begin < parameter.elements(); begin += piece_elements) {
        pieces_.push_back({parameter.rank, std::min(piece_elements, parameter.elements() - begin)});
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

}  // namespace

void export_model(const Assembly& assembly, comm::Communicator& world, const std::string& folder,
                  const std::string& tokenizer_folder) {
  const std::vector<Owned> parameters = owners(assembly);
  std::exception_ptr failure;
  if (world.rank() == 0) {
    Arrivals arrivals(world, parameters);
    std::vector<model::TensorToWrite> tensors;
    for (const Owned& parameter : parameters) {
      model::TensorToWrite tensor{.name = parameter.spec.name, .shape = parameter.spec.shape};
      if (parameter.rank == 0) {
        tensor.values = values_of(assembly.parameters, parameter.spec.name);
      } else {
        tensor.fetch = [&arrivals](std::int64_t) { return arrivals.next(); };
      }
      tensors.push_back(std::move(tensor));
    }
    try {
      model::save_hf_folder(folder, assembly.config, assembly.traits.head, std::move(tensors), tokenizer_folder);
    } catch (const std::exception&) {  // the others must be rid of theirs before all can talk about it
      failure = std::current_exception();
    }
    arrivals.drain();
  } else {
    send_all(assembly, world, parameters);
  }
  collectively(world, [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace bert_hpc::app
