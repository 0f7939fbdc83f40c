// Makes the metrics of rankings from the scores of all candidates, as they arrive in the data's order. Memory: a
// query's candidates, and 16 bytes for each query.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "bert_hpc/data/group_data.hpp"
#include "bert_hpc/metrics/metric.hpp"
#include "bert_hpc/metrics/rankings.hpp"
#include "bert_hpc/score/ranking.hpp"

namespace bert_hpc::objectives {

struct RankingSettings {
  double threshold = 0;  ///< a query's best candidate is its answer from this score on
  bool skips_unanswerable =
      true;                    ///< queries without anything relevant are not judged by their ranking; else they count 0
  bool has_list_loss = false;  ///< the loss is that of whole queries
};

class RankingScorer {
 public:
  /// `reader` must outlive it. `hdf5` is held during HDF5 calls.
  RankingScorer(const data::ShardReader& reader, std::mutex& hdf5, const RankingSettings& settings);

  /// The score of the next sample.
  void add(float score);
  /// After the last sample: sums (RankingSums::count) of the whole data set. Only where levels are known.
  void finish(metrics::Sums sums);
  /// Σ losses of finished queries with a relevant candidate, and their number, if settings.has_list_loss.
  metrics::LossSum loss() const { return loss_; }

 private:
  void finish_query();

  const data::ShardReader& reader_;
  data::GroupReader groups_;
  RankingSettings settings_;
  std::vector<float> scores_;  // of the query under way
  metrics::RankingSums accumulators_;
  metrics::LossSum loss_;
  bool is_nan_ = false;
  std::vector<score::TriggeredAnswer> answers_;  // (queries)
  std::vector<score::RankedCandidate> candidates_;
  std::vector<std::int64_t> ranked_, ideal_;
};

}  // namespace bert_hpc::objectives
