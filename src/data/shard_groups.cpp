// Groups of neighbouring sequences of a shard.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_file.hpp"

namespace bert_hpc::data {

using io::Dataset;
using Type = io::DatasetInfo::TypeClass;

void ShardFile::check_groups() {
  if (!file_.exists(shard_dataset::groups)) fail(std::string("it has no dataset '") + shard_dataset::groups + "'.");
  const std::vector<std::int64_t> extents = file_.dataset(shard_dataset::groups).info().extents;
  check_column(shard_dataset::groups, {Type::integer, 8, true, {extents.empty() ? 0 : extents.front()}});
  if (extents.front() < 1 || extents.front() > info_.sequences + 1) {
    fail("'/groups' have " + std::to_string(extents.front()) + " elements; " + std::to_string(info_.sequences) +
         " sequences are in at most as many groups.");
  }
}

std::vector<std::int64_t> ShardFile::read_groups() const {
  const Dataset dataset = counted_dataset(shard_dataset::groups);
  std::vector<std::int64_t> groups(static_cast<std::size_t>(dataset.info().extents.front()));
  dataset.read_rows(0, groups);
  bool good = groups.front() == 0 && groups.back() == info_.sequences;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) good = good && groups[g] < groups[g + 1];
  if (!good) {
    fail("'/groups' must ascend from 0 to " + std::to_string(info_.sequences) + ", the number of sequences.");
  }
  return groups;
}

}  // namespace bert_hpc::data
