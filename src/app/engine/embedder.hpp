// Runs a model over a data set and writes the embeddings of its sequences. Samples go through it in steps of the data's
// order; the files' ranks take turns in collecting them, and a thread writes a step while the next one is computed.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/engine/embedding_file.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/step_results.hpp"
#include "bert_hpc/data/batch_loader.hpp"

namespace bert_hpc::app {

/// Cut of a data set into steps and files. It depends on the data and the format alone, so that a run continues on any
/// layout.
struct EmbeddingCut {
  std::int64_t sequences_of_step = 0;  ///< a power of two
  std::int64_t steps_of_file = 0;
};

/// Steps of at most 64 MiB of floats, of 256 sequences or more, and files of about 256 MiB. `mean_length`: tokens of a
/// sequence; hidden: columns that the model computes. Pure.
EmbeddingCut embedding_cut(const EmbeddingFormat& format, std::int64_t hidden, double mean_length);

/// Removes the split's files that are not among the complete ones; files of other names stay.
void remove_embeddings(const std::string& folder, const std::string& split, const std::vector<std::string>& complete);

class Embedder : private train::PipelineEvents {
 public:
  /// All must outlive it. `options`: an evaluation's. `hdf5` is held during HDF5 calls.
  Embedder(ModelInstance& model, data::ShardReader& reader, const EmbeddingFormat& format,
           data::BatchLoaderOptions options, std::mutex& hdf5);

  layers::BatchBounds bounds() const;  ///< of its micro-batches
  std::int64_t step_bytes() const;     ///< of the floats that a rank collects and writes
  const data::ShardReader& reader() const { return reader_; }

  struct Written {
    int files = 0, kept = 0;  ///< of the split; complete ones of an earlier start
    std::int64_t sequences = 0;
    bool finished = false;
  };
  /// Collective over all ranks of the model's grid. Writes FOLDER/SPLIT-00000.h5 and so on, complete ones of the same
  /// identity excepted, and removes other files of the split. The folder exists. `give_up`, which is collective, is
  /// asked before every step, with the number of sequences that are done. Throws Stop if a rank cannot write.
  Written write(const std::string& folder, const std::string& split, const EmbeddingIdentity& identity,
                const std::function<bool(std::int64_t)>& give_up);

 private:
  void result(int micro_batch, model::Stage& stage, int slot) override;
  std::int64_t width(std::int64_t sample) const;
  std::int64_t rows(std::int64_t first, std::int64_t last) const;
  void compute_step();
  void start_writing(std::shared_ptr<EmbeddingFile> file, std::int64_t first);
  void finish_writing();

  ModelInstance& model_;
  data::ShardReader& reader_;
  EmbeddingFormat format_;
  EmbeddingCut cut_;
  data::BatchLoader loader_;
  std::mutex& hdf5_;
  StepResults kept_, written_;  // of the step that is computed, and of the one that is written
  std::vector<float> staging_;  // copy of a micro-batch's embeddings in host memory, on GPUs
  // The step under way.
  const data::LoadedStep* loaded_ = nullptr;
  std::vector<layers::StepContext> passes_;
  std::future<void> writing_;  // last: destroyed, and so waited for, first
};

}  // namespace bert_hpc::app
