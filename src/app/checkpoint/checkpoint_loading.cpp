#include "bert_hpc/app/checkpoint/checkpoint_loading.hpp"

#include "bert_hpc/app/run/collective.hpp"
#include "checkpoint_parts.hpp"

namespace bert_hpc::app {
namespace {

/// Reads the parts of one quantity; put(arena, elements) says where they go.
template <class Put>
void read_parts(io::CheckpointReader& reader, const std::string& quantity, const std::vector<core::WantedPart>& parts,
                const Put& put) {
  std::vector<float> whole;
  for (const core::WantedPart& part : parts) {
    whole.resize(static_cast<std::size_t>(part.last - part.first));
    reader.read(quantity, part.tensor, part.first, whole);
    for (const core::PlacedPiece& placed : part.pieces) {
      const core::TensorPiece& piece = placed.piece;
      for (std::int64_t r = 0; r < piece.count; ++r) {
        const std::span<const float> run(whole.data() + (piece.first + r * piece.stride - part.first),
                                         static_cast<std::size_t>(piece.length));
        ops::copy_to_device(run, put(placed.arena + r * piece.length, run.size()));
      }
    }
  }
}

}  // namespace

void load_parameters(const io::CheckpointFolder& folder, const io::CheckpointManifest& manifest, ModelInstance& model,
                     std::mutex& hdf5) {
  const comm::ProcessGroups& groups = model.groups();
  const std::span<float> values = model.parameters.change_values();
  collectively(groups.world, [&] {
    if (model.place.data != 0) return;
    io::CheckpointReader reader(folder.place(manifest.step), manifest, hdf5);
    const std::vector<core::ArenaRange> all = {{0, model.parameters.arena_size()}};
    const auto parts = core::parts_to_load(model.parameters.slices(), manifest.tensors, all);
    read_parts(reader, io::parameters_name, parts, [&](std::int64_t arena, std::size_t count) {
      return values.subspan(static_cast<std::size_t>(arena), count);
    });
  });
  groups.data->broadcast(values, 0);
}

void load_states(const io::CheckpointFolder& folder, const io::CheckpointManifest& manifest, ModelInstance& model,
                 const train::DataParallel& sums, train::Optimizer& optimizer, std::mutex& hdf5) {
  const comm::ProcessGroups& groups = model.groups();
  // Where every replica owns all, one reads for the others.
  const bool shared = !sums.plan().shares_update();
  const StatePlaces places(sums.owned());
  collectively(groups.world, [&] {
    if (shared && model.place.data != 0) return;
    io::CheckpointReader reader(folder.place(manifest.step), manifest, hdf5);
    const auto parts = core::parts_to_load(model.parameters.slices(), manifest.tensors, owned_ranges(sums));
    for (std::size_t s = 0; s < optimizer.states().size(); ++s) {
      read_parts(reader, optimizer.states()[s].name, parts, [&](std::int64_t arena, std::size_t count) {
        return optimizer.state(s).subspan(places.of(arena), count);
      });
    }
  });
  for (std::size_t s = 0; shared && s < optimizer.states().size(); ++s) {
    if (sums.plan().settings.offload) {
      groups.data->broadcast(std::as_writable_bytes(optimizer.state(s)), 0);  // in host memory
    } else {
      groups.data->broadcast(optimizer.state(s), 0);
    }
  }
  optimizer.parameters_changed();
}

}  // namespace bert_hpc::app
