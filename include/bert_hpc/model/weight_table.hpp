// WeightTable: the tensors of a file of weights that hold a model's parameters. A parameter is a tensor of its own name
// unless its family lists another source: a tensor that stores matrices transposed (Transformers' Conv1D), or some rows
// of a tensor that several parameters share (a joint query, key and value). Loading and writing read this table alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/model/safetensors.hpp"

namespace bert_hpc::model {

/// Source of a parameter, a vector (out) or a matrix (out, in).
struct WeightSource {
  std::string tensor;            ///< name of the tensor in files
  bool transposed = false;       ///< a matrix is stored as (in, out)
  std::int64_t first_row = 0;    ///< first row of the tensor, taken as (out, in), that belongs to the parameter
  std::int64_t tensor_rows = 0;  ///< rows of the tensor, taken as (out, in); 0: those of the parameter
  // The same of the columns of a matrix that is stored transposed:
  std::int64_t first_column = 0, tensor_columns = 0;

  bool is_whole() const { return !transposed && tensor_rows == 0 && tensor_columns == 0; }
};

class WeightTable {
 public:
  void add(const std::string& parameter, WeightSource source) { sources_[parameter] = std::move(source); }
  WeightSource source_of(const std::string& parameter) const;
  /// Name of the decoder that is tied to the word embeddings, which files may hold too; "" if the model has none.
  const std::string& tied() const { return tied_; }
  void set_tied(const std::string& decoder) { tied_ = decoder; }
  /// Whether files hold parameter `a` before parameter `b`: by tensors' names, then by rows.
  bool is_before(const std::string& a, const std::string& b) const;

 private:
  std::map<std::string, WeightSource> sources_;
  std::string tied_;
};

/// Sources of these parameters in a model of the same family with other blocks: blocks[i] is there what block i is
/// here. A block's number is the first part of a name, between dots, that is a number.
WeightTable with_blocks(const WeightTable& table, const std::vector<std::string>& parameters,
                        const std::vector<std::int64_t>& blocks);

/// Shape of the tensor in files; `shape` is that of the whole parameter.
std::vector<std::int64_t> stored_shape(const WeightSource& source, std::vector<std::int64_t> shape);

/// Elements of the tensor that hold a shard of this shape, in the order of the tensor.
core::ShardRuns stored_runs(const WeightSource& source, const std::vector<std::int64_t>& shape,
                            const core::Shard& shard);

/// Turns elements in the order of stored_runs() into those of the shard.
void to_parameter_order(const WeightSource& source, const std::vector<std::int64_t>& shape, std::span<float> elements);

/// Tensors of a file that hold these parameters, which are whole and lie in the order of is_before(). Throws
/// Error(internal) if parameters do not fill a tensor that they share.
std::vector<TensorToWrite> as_stored(std::vector<TensorToWrite> parameters, const WeightTable& table);

}  // namespace bert_hpc::model
