#include "app/checkpoint/checkpoint_loading.hpp"

#include <algorithm>

#include "app/checkpoint/checkpoint_parts.hpp"
#include "app/checkpoint/snapshot.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/ops/dynamic8.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/train/optimizer_states.hpp"

namespace bert_hpc::app {
namespace {

/// Calls put(arena, elements) for each run of `part` of neighbours in the arena; `whole` are its elements [first,
/// last).
template <class T, class Put>
void for_runs(const core::WantedPart& part, std::span<const T> whole, const Put& put) {
  for (const core::ArenaPiece& stored : part.pieces) {
    const core::TensorPiece& piece = stored.piece;
    for (std::int64_t r = 0; r < piece.count; ++r) {
      put(stored.arena + r * piece.length,
          whole.subspan(static_cast<std::size_t>(piece.first + r * piece.stride - part.first),
                        static_cast<std::size_t>(piece.length)));
    }
  }
}

/// Reads the parts of a quantity in fp32; target(arena, elements) is the memory for them.
template <class Target>
void read_parts(io::CheckpointReader& reader, const std::string& quantity, std::span<const core::WantedPart> parts,
                const Target& target) {
  std::vector<float> whole;
  for (const core::WantedPart& part : parts) {
    whole.resize(static_cast<std::size_t>(part.last - part.first));
    reader.read(quantity, part.tensor, part.first, whole);
    for_runs<float>(part, whole, [&](std::int64_t arena, std::span<const float> run) {
      ops::copy_to_device(run, target(arena, run.size()));
    });
  }
}

/// A state in blocks. Ranks may have cut the blocks of the checkpoint in another way: elements are decoded with the
/// scale that they had, and encoded with the largest one of their block here. Where the blocks are the same, so are the
/// codes.
void read_blocks(io::CheckpointReader& reader, const ops::StateTensor& kind, std::span<const core::WantedPart> parts,
                 const train::OptimizerStates& states, std::size_t number) {
  namespace dynamic8 = ops::dynamic8;
  const bool with_sign = kind.form == ops::StateForm::signed_blocks;
  const auto& values = dynamic8::values(with_sign);
  std::vector<float> numbers(states.codes(number).size()), scales(states.scales(number).size()), part_scales;
  std::vector<std::uint8_t> codes(numbers.size()), part_codes;
  for (const core::WantedPart& part : parts) {
    part_codes.resize(static_cast<std::size_t>(part.last - part.first));
    part_scales.resize(part_codes.size());
    reader.read_codes(codes_name(kind), part.tensor, part.first, part_codes);
    reader.read_scales(scales_name(kind), part.tensor, part.first, part_scales);
    for_runs<std::uint8_t>(part, part_codes, [&](std::int64_t arena, std::span<const std::uint8_t> run) {
      const float* const scale_of = part_scales.data() + (run.data() - part_codes.data());
      const auto index = static_cast<std::size_t>(states.position_of(arena).index);
      for (std::size_t i = 0; i < run.size(); ++i) {
        float& scale = scales[(index + i) / dynamic8::block];
        numbers[index + i] = values[run[i]] * scale_of[i];
        scale = std::max(scale, scale_of[i]);
      }
    });
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float y = numbers[i] * dynamic8::inverse_scale(scales[i / dynamic8::block]);
    codes[i] = dynamic8::encode(with_sign, y);
  }
  core::copy_to_device(codes.data(), states.codes(number).data(), codes.size());
  ops::copy_to_device(scales, states.scales(number));
}

void read_states(io::CheckpointReader& reader, const io::CheckpointManifest& manifest,
                 std::vector<core::WantedPart> parts, const train::OptimizerStates& states) {
  auto blocks_begin = parts.end();
  if (ops::have_blocks(states.kinds())) {
    blocks_begin = std::stable_partition(parts.begin(), parts.end(), [&](const core::WantedPart& part) {
      return !core::state_blocks::are_kept(manifest.tensors[static_cast<std::size_t>(part.tensor)].elements());
    });
  }
  for (std::size_t s = 0; s < states.kinds().size(); ++s) {
    const ops::StateTensor& kind = states.kinds()[s];
    read_parts(reader, kind.name, {parts.begin(), blocks_begin}, [&](std::int64_t arena, std::size_t count) {
      return states.numbers(s).subspan(static_cast<std::size_t>(states.position_of(arena).index), count);
    });
    if (kind.in_blocks()) read_blocks(reader, kind, {blocks_begin, parts.end()}, states, s);
  }
}

/// Sends states of rank 0 of the group to its others.
void broadcast_states(comm::Communicator& group, const train::OptimizerStates& states, bool in_host_memory) {
  const auto send = [&](std::span<float> numbers) {
    if (numbers.empty()) return;  // on all ranks of the group
    if (in_host_memory) {
      group.broadcast(std::as_writable_bytes(numbers), 0);
    } else {
      group.broadcast(numbers, 0);
    }
  };
  for (std::size_t s = 0; s < states.kinds().size(); ++s) {
    send(states.numbers(s));
    const std::span<std::uint8_t> codes = states.codes(s);  // whole blocks, moved as floats
    send({reinterpret_cast<float*>(codes.data()), codes.size() / sizeof(float)});
    send(states.scales(s));
  }
}

}  // namespace

void load_parameters(const io::CheckpointFolder& folder, const io::CheckpointManifest& manifest, ModelInstance& model,
                     std::mutex& hdf5) {
  const comm::ProcessGroups& groups = model.groups();
  const std::span<float> values = model.parameters.change_values();
  collectively(groups.world, [&] {
    if (model.coordinates.data != 0) return;
    io::CheckpointReader reader(folder.path_of(manifest.step), manifest, hdf5);
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
  // If every replica owns all, one reads for the others.
  const bool shared = !sums.plan().shares_update();
  collectively(groups.world, [&] {
    if (shared && model.coordinates.data != 0) return;
    io::CheckpointReader reader(folder.path_of(manifest.step), manifest, hdf5);
    read_states(reader, manifest, core::parts_to_load(model.parameters.slices(), manifest.tensors, owned_ranges(sums)),
                optimizer.states());
  });
  if (shared) broadcast_states(*groups.data, optimizer.states(), sums.plan().settings.offload);
  optimizer.parameters_changed();
}

}  // namespace bert_hpc::app
