#include "bert_hpc/model/weight_table.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::model {
namespace {

/// to (columns, rows) = from (rows, columns), transposed, in blocks that caches hold. Rows of `to` are `stride` apart.
void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to, std::int64_t stride) {
  constexpr std::int64_t block = 32;
  for (std::int64_t first_row = 0; first_row < rows; first_row += block) {
    const std::int64_t last_row = std::min(rows, first_row + block);
    for (std::int64_t first_column = 0; first_column < columns; first_column += block) {
      const std::int64_t last_column = std::min(columns, first_column + block);
      for (std::int64_t row = first_row; row < last_row; ++row) {
        for (std::int64_t column = first_column; column < last_column; ++column) {
          to[column * stride + row] = from[row * columns + column];
        }
      }
    }
  }
}

bool is_transposed(const WeightSource& source, const std::vector<std::int64_t>& shape) {
  return source.transposed && shape.size() == 2;
}

/// A tensor that one or several parameters fill. Memory for values is common to all such tensors of a file.
struct FilledTensor {
  struct Values {
    std::vector<float> tensor{}, parameter{};
  };
  std::shared_ptr<Values> memory{};
  std::int64_t elements = 0;
  std::vector<TensorToWrite> parts{};
  std::vector<WeightSource> sources{};

  /// All elements, as the caller asks for them from the first one on.
  std::span<const float> fetch() const {
    memory->tensor.resize(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < parts.size(); ++i) put(parts[i], sources[i]);
    return memory->tensor;
  }
  void require_full() const {
    std::int64_t there = 0;
    for (const TensorToWrite& part : parts) there += part.elements();
    core::require(there == elements, "weights: parameters do not fill the tensor that they share");
  }

 private:
  void put(const TensorToWrite& part, const WeightSource& source) const {
    std::vector<float>& values = memory->parameter;
    values.assign(part.values.begin(), part.values.end());
    while (std::ssize(values) < part.elements()) {
      const std::span<const float> more = part.fetch(std::ssize(values));
      core::require(!more.empty(), "weights: a parameter ends early");
      values.insert(values.end(), more.begin(), more.end());
    }
    const std::int64_t rows = part.shape[0], columns = part.shape.size() == 2 ? part.shape[1] : 1;
    float* const to = memory->tensor.data();
    if (is_transposed(source, part.shape)) {
      const std::int64_t stride = source.tensor_rows > 0 ? source.tensor_rows : rows;
      return transpose(values.data(), rows, columns, to + source.first_row + source.first_column * stride, stride);
    }
    std::copy(values.begin(), values.end(), to + source.first_row * columns);
  }
};

}  // namespace

WeightSource WeightTable::source_of(const std::string& parameter) const {
  const auto found = sources_.find(parameter);
  return found == sources_.end() ? WeightSource{.tensor = parameter} : found->second;
}

bool WeightTable::is_before(const std::string& a, const std::string& b) const {
  const WeightSource of_a = source_of(a), of_b = source_of(b);
  return std::tie(of_a.tensor, of_a.first_row, of_a.first_column, a) <
         std::tie(of_b.tensor, of_b.first_row, of_b.first_column, b);
}

WeightTable with_blocks(const WeightTable& table, const std::vector<std::string>& parameters,
                        const std::vector<std::int64_t>& blocks) {
  WeightTable there = table;
  for (const std::string& parameter : parameters) {
    WeightSource source = table.source_of(parameter);
    for (std::size_t begin = 0; begin < source.tensor.size();) {
      const std::size_t end = std::min(source.tensor.find('.', begin), source.tensor.size());
      const std::string part = source.tensor.substr(begin, end - begin);
      if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) {
        source.tensor.replace(begin, part.size(), std::to_string(blocks.at(std::stoul(part))));
        there.add(parameter, source);
        break;
      }
      begin = end + 1;
    }
  }
  return there;
}

std::vector<std::int64_t> stored_shape(const WeightSource& source, std::vector<std::int64_t> shape) {
  if (source.tensor_rows > 0) shape[0] = source.tensor_rows;
  if (source.tensor_columns > 0) shape[1] = source.tensor_columns;
  if (is_transposed(source, shape)) std::swap(shape[0], shape[1]);
  return shape;
}

core::ShardRuns stored_runs(const WeightSource& source, const std::vector<std::int64_t>& shape,
                            const core::Shard& shard) {
  if (source.is_whole()) return core::runs_of(shape, shard);
  core::require(source.tensor_columns == 0, "weights: no part of some columns is read");
  const std::vector<std::int64_t> whole = core::whole_shape(shape, shard);
  const bool is_matrix = whole.size() == 2;
  std::int64_t rows = shape[0], first_row = source.first_row + (shard.dimension == 0 ? shard.begin : 0);
  std::int64_t columns = is_matrix ? shape[1] : 1, first_column = shard.dimension == 1 ? shard.begin : 0;
  std::int64_t stride = is_matrix ? whole[1] : 1;
  if (is_transposed(source, shape)) {
    std::swap(rows, columns);
    std::swap(first_row, first_column);
    stride = source.tensor_rows > 0 ? source.tensor_rows : whole[0];
  }
  const std::int64_t first = first_row * stride + first_column;
  if (columns == stride) return {1, rows * columns, first, rows * columns};
  return {rows, columns, first, stride};
}

void to_parameter_order(const WeightSource& source, const std::vector<std::int64_t>& shape, std::span<float> elements) {
  if (!is_transposed(source, shape)) return;
  const std::vector<float> stored(elements.begin(), elements.end());
  transpose(stored.data(), shape[1], shape[0], elements.data(), shape[1]);
}

std::vector<TensorToWrite> as_stored(std::vector<TensorToWrite> parameters, const WeightTable& table) {
  std::vector<TensorToWrite> tensors;
  std::vector<std::shared_ptr<FilledTensor>> filled;
  const auto memory = std::make_shared<FilledTensor::Values>();
  for (TensorToWrite& parameter : parameters) {
    WeightSource source = table.source_of(parameter.name);
    if (source.is_whole()) {
      parameter.name = source.tensor;
      tensors.push_back(std::move(parameter));
      continue;
    }
    if (tensors.empty() || tensors.back().name != source.tensor) {
      TensorToWrite tensor{.name = source.tensor, .shape = stored_shape(source, parameter.shape)};
      const auto parts = std::make_shared<FilledTensor>(FilledTensor{.memory = memory, .elements = tensor.elements()});
      filled.push_back(parts);
      tensor.fetch = [parts](std::int64_t) { return parts->fetch(); };
      tensors.push_back(std::move(tensor));
    }
    filled.back()->parts.push_back(std::move(parameter));
    filled.back()->sources.push_back(std::move(source));
  }
  for (const auto& tensor : filled) tensor->require_full();
  return tensors;
}

}  // namespace bert_hpc::model
