// What a run says before it starts: which program, where each rank runs, what it will compute and what that takes. Pure
// functions from gathered facts to text; equal nodes and ranks share a line, so that a thousand ranks fit on a screen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/report/rank_hosts.hpp"

namespace bert_hpc::app {

struct BannerFacts {
  std::string version, revision;
  std::vector<std::string> libraries;
  std::string kernels;                      ///< e.g. "matmul: native; attention: fused"
  std::string processor, instruction_sets;  ///< of rank 0's node
  std::string input;                        ///< path of the input file
  std::string run;                          ///< e.g. "train classification into quickstart/run"
  std::vector<RankPlacement> ranks;
  int planned_ranks = 0;  ///< of --validate --ranks; 0: the plan is for the ranks that run
  std::string layout;     ///< e.g. "data 2 × pipeline 1 × tensor 1"
  std::string model;      ///< e.g. "bert, 2 layers of 128, 4 heads"
  std::int64_t parameters = 0;
  std::optional<std::int64_t> trainable_parameters;  ///< where the run may freeze some
  double flops_per_token = 0;                        ///< of the model; 0: not printed
  std::string flops_of = "training";                 ///< forward and backward; "forward"
  /// Planned memory of one rank in bytes, by what it is for.
  std::vector<std::pair<std::string, std::int64_t>> memory;
  /// More lines: name and text.
  std::vector<std::pair<std::string, std::string>> more;
};

std::string banner(const BannerFacts& facts);

}  // namespace bert_hpc::app
