#include "app/engine/padding.hpp"

#include <algorithm>
#include <numeric>

namespace bert_hpc::app {

data::PaddingOptions padding_options(const config::Config& input, const model::ModelConfig& model,
                                     const data::ShardReader& reader) {
  data::PaddingOptions padding;
  if (input.data.padding == "none") return padding;
  padding.sorts = input.data.order == "by_length";
  padding.kind = input.data.padding == "max" ? data::Padding::max : data::Padding::longest;
  if (padding.kind == data::Padding::longest) return padding;
  const std::int64_t positions = model.max_position_embeddings;
  const std::int64_t most =
      reader.planned() ? 0 : data::max_tokens_from_json(reader.info().tokenizer, reader.files().front());
  // Other shards of the data set may have been made with a larger limit.
  padding.length =
      static_cast<std::int32_t>(std::max(most > 0 ? std::min(most, positions) : positions, reader.info().max_length));
  return padding;
}

double mean_rows(const data::PaddingOptions& padding, std::span<const std::int32_t> lengths, std::int64_t sequences) {
  if (padding.kind == data::Padding::max) return padding.length;
  const auto count = static_cast<std::int64_t>(lengths.size());
  const double mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
                      static_cast<double>(count);
  if (!padding.pads() || padding.sorts) return mean;
  // Sequences at a distance make up a micro-batch: neighbours in a file may be alike.
  const std::int64_t size = std::clamp<std::int64_t>(sequences, 1, count), micro_batches = count / size;
  double sum = 0;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    std::int32_t longest = 0;
    for (std::int64_t s = 0; s < size; ++s) {
      longest = std::max(longest, lengths[static_cast<std::size_t>(s * micro_batches + m)]);
    }
    sum += longest;
  }
  return sum / static_cast<double>(micro_batches);
}

double mean_rows(const config::Config& input, const data::PaddingOptions& padding, const data::ShardReader& reader,
                 int replicas, std::int64_t usual) {
  if (!padding.pads()) return reader.info().mean_length();
  const std::int64_t share = std::max<std::int64_t>(1, input.batch.global / replicas);
  std::int64_t sequences = input.batch.micro_tokens.value_or(usual) / padding.rows(reader.info().max_length);
  if (input.batch.micro) sequences = *input.batch.micro;
  if (input.batch.micro_batches) sequences = share / *input.batch.micro_batches;
  if (input.batch.chunks > 0) sequences = input.batch.global / input.batch.chunks;
  return mean_rows(padding, reader.table().lengths(), std::clamp<std::int64_t>(sequences, 1, share));
}

std::string padding_text(const data::PaddingOptions& padding) {
  switch (padding.kind) {
    case data::Padding::none:
      return "";
    case data::Padding::longest:
      return "to the longest sequence of each micro-batch";
    case data::Padding::max:
      return "to " + std::to_string(padding.length) + " tokens";
  }
  return "";
}

}  // namespace bert_hpc::app
