#include "bert_hpc/layers/stream.hpp"

namespace bert_hpc::layers {

Matrix take_stream(core::Workspace& workspace, const TensorGroup& group, std::int64_t rows, std::int64_t hidden,
                   DataType storage) {
  Matrix both = workspace.take(2 * group.capacity(rows), hidden, storage);
  both.rows = 2 * group.count(rows);
  return both;
}

}  // namespace bert_hpc::layers
