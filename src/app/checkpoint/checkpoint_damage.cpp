#include "app/checkpoint/checkpoint_damage.hpp"

#include <functional>

#include "app/engine/training_state.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {

std::string link_in(comm::Communicator& world, const io::CheckpointFolder& folder, std::int64_t step) {
  std::string why;
  try {
    if (world.rank() == 0) folder.refuse_links(step);
  } catch (const std::exception& link) {
    why = link.what();
  }
  return world.broadcast(why, 0);
}

std::string damage(comm::Communicator& world, const io::CheckpointFolder& folder, std::int64_t step,
                   io::CheckpointManifest& manifest, std::mutex& hdf5) {
  const std::string path = folder.path_of(step);
  std::string mine;
  const auto attempt = [&](const std::function<void()>& work) {
    try {
      if (mine.empty()) work();
    } catch (const std::exception& failure) {
      mine = failure.what();
    }
  };
  const auto agree = [&] {
    if (!world.any(!mine.empty())) return std::string();
    for (const std::string& text : world.all_gather(mine)) {
      if (!text.empty()) return text;
    }
    return std::string();
  };
  // One reads it for all: a thousand ranks opening one file at once hurts shared file systems, and ranks whose view of
  // the disk is older cannot take another step for this one.
  std::string message;
  if (world.rank() == 0) {
    attempt([&] {
      manifest = io::read_manifest(path, hdf5);
      if (manifest.step != step)
        throw core::Error(core::ExitCode::files, "It is of step " + std::to_string(manifest.step) + '.');
      io::verify_history(path, manifest);
      message = io::to_message(manifest);
    });
  }
  const std::string broken = agree();
  if (!broken.empty()) return broken;
  message = world.broadcast(message, 0);
  if (world.rank() != 0) manifest = io::manifest_of_message(message);
  for (std::size_t f = 0; f < manifest.files.size(); ++f) {
    if (static_cast<int>(f % static_cast<std::size_t>(world.size())) != world.rank()) continue;
    attempt([&] { io::verify_checkpoint_file(path, manifest, f, hdf5); });
  }
  attempt([&] { training_state(manifest); });
  return agree();
}

}  // namespace bert_hpc::app
