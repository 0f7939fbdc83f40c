// Embeddings of distances in a block's attention: a table and its layer norm, which all blocks have in common and each
// block stores for itself, and what the block's query and key layers make of them. The rows that a micro-batch's
// longest sequence needs are computed once for all of its sequences.
#pragma once

#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/layers/layer_norm.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/ops/relative_positions.hpp"

namespace bert_hpc::layers {

class RelativeEmbeddings {
 public:
  /// What backward needs of forward. All have a row for each bucket, of which those of the micro-batch are filled.
  struct Saved {
    Matrix sum, norm;            ///< (buckets, hidden), fp32: the table, and its layer norm
    Matrix input;                ///< (buckets, hidden): the norm after dropout, as the products read it
    Matrix projected;            ///< (buckets, 2·width): queries, keys
    Matrix inner;                ///< of the adapters: LinearRows::of_x
    Tensor<float> statistics{};  ///< (2, buckets)
  };
  struct Deferred {
    Matrix d_projected;  ///< as Saved::projected
    Matrix d_input;      ///< (buckets, hidden), fp32
    Matrix inner;        ///< LinearRows::of_d_y
  };

  /// `query_key`: the block's joint layer of queries and keys. `parameters` must outlive it. Throws Error(internal) if
  /// a parameter is missing.
  RelativeEmbeddings(const SublayerSettings& settings, const RelativePositionSettings& own,
                     const core::ParameterStore& parameters, const TensorGroup& group, const LinearSettings& query_key);

  /// Appends the parameters: whole on each rank of a tensor group.
  static void declare(const SublayerSettings& settings, const RelativePositionSettings& own,
                      std::vector<core::ParameterSpec>& specs);

  void allocate_saved(core::Workspace& workspace, DataType type, Saved& saved) const;
  void allocate_deferred(core::Workspace& workspace, DataType type, Deferred& deferred) const;
  /// The weights of its product, for planning.
  void list_weights(std::vector<LinearWeight>& weights) const;

  void forward(const Engine& engine, const StepContext& context, const Saved& saved) const;
  /// The result of forward(), for attention.
  ops::RelativePositions view(const Saved& saved) const;

  /// Whether anything has a gradient: else the sums by distance are not wanted.
  bool is_trained() const { return trains_table_ || query_key_.is_trained(); }
  /// From the sums by distance, as of ops::AttentionGradients, to deferred.d_projected.
  void backward_input(const StepContext& context, Tensor<const float> d_keys, Tensor<const float> d_queries,
                      const Deferred& deferred) const;
  /// Adds to the gradients of the parameters and of the query and key layers, after these have theirs of the tokens.
  /// Collective over the tensor group.
  void backward_weight(const Engine& engine, const StepContext& context, const Saved& saved,
                       const Deferred& deferred) const;

 private:
  /// The buckets that sequences of the micro-batch need.
  struct Rows {
    std::int64_t begin, count;
    core::TokenRows token_rows;
    template <class Address>
    core::BasicMatrix<Address> of(const core::BasicMatrix<Address>& all) const {
      return all.row_range(begin, count);
    }
  };
  Rows rows_of(const StepContext& context) const;
  ops::DistanceBuckets distances() const { return {distances_.data(), reach_}; }
  StepContext table_context(const StepContext& context) const;

  const core::ParameterStore* parameters_;
  TensorGroup group_;
  std::int64_t hidden_, buckets_, width_;  // width_: columns of the heads here
  float epsilon_, dropout_;
  std::uint32_t site_;
  int table_;
  NormParameters norm_;
  Linear query_key_;
  bool trains_table_;  // or its norm
  std::int32_t reach_;
  std::vector<std::int32_t> bucket_of_distance_;
  core::Buffer<std::int32_t> distances_;  // the same for kernels
  core::Buffer<std::int32_t> numbers_;    // 0, buckets; a 0 for each bucket; 0, 1, …
  core::Buffer<std::int64_t> sample_;     // 0: every micro-batch of a step draws the same
  core::MicroBatch batch_;                // of all buckets, as one sequence
};

}  // namespace bert_hpc::layers
