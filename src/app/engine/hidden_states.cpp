#include "app/engine/hidden_states.hpp"

#include <algorithm>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

namespace {

using Counts = std::vector<std::int64_t>;

/// Edge behind a block.
std::int64_t edge_behind(const model::ModelPlan& plan, std::int64_t block) {
  std::int64_t edge = 0;
  for (std::int64_t i = 0; i < plan.sublayer_count(); ++i) {
    if (plan.sublayers[static_cast<std::size_t>(i)].block <= block) edge = i + 1;
  }
  return edge;
}

std::int64_t blocks_of(const model::ModelPlan& plan) {
  return plan.sublayers.back().block + 1;
}

std::int64_t columns_of(const model::ModelPlan& plan) {
  return plan.width(plan.sublayer_count());
}

/// Throws Error(input) if projections cannot be trained beside the student.
void require_projections(const config::Config& input) {
  core::ProblemList problems;
  if (input.model.trainable != "all" || input.model.freeze_layers > 0) {
    problems.add("[model] trainable must be \"all\" and freeze_layers 0.");
  }
  if (input.parallel.pipeline_schedule == "zb_h1") {
    problems.add("[parallel] pipeline_schedule must not be \"zb_h1\".");
  }
  problems.throw_if_any(ExitCode::input,
                        "[distill] losses: \"hidden_mse\" of models with other hidden_size trains projections:");
}

std::string map_text(const Counts& map) {
  std::string text;
  for (const std::int64_t block : map) text += (text.empty() ? "" : ", ") + std::to_string(block);
  return '[' + text + ']';
}

}  // namespace

bool compares_states(const config::Config& input) {
  return input.distills_by(config::hidden_squares_word) || input.distills_by(config::hidden_cosine_word);
}

bool compares_attention(const config::Config& input) {
  return input.distills_by(config::attention_squares_word);
}

std::vector<std::int64_t> even_layer_map(std::int64_t student, std::int64_t teacher) {
  Counts map;
  for (std::int64_t i = 1; i <= student; ++i) map.push_back((i * teacher + student - 1) / student - 1);
  return map;
}

std::vector<std::int64_t> layer_map_of(const config::Config& input, std::int64_t student, std::int64_t teacher) {
  const std::vector<double>& given = input.distill.layer_map;
  if (given.empty()) return even_layer_map(student, teacher);
  const Counts map(given.begin(), given.end());
  core::ProblemList problems;
  if (std::ssize(map) != student) {
    problems.add("it names " + core::counted(std::ssize(map), "block") + " and the student has " +
                 std::to_string(student) + ".");
  }
  for (const std::int64_t block : map) {
    if (block < teacher) continue;
    problems.add("the teacher has no block " + std::to_string(block) + ": its blocks are 0 to " +
                 std::to_string(teacher - 1) + ".");
    break;
  }
  problems.throw_if_any(ExitCode::input, "[distill] layer_map = " + map_text(map) +
                                             " does not fit; without it, it is " +
                                             map_text(even_layer_map(student, teacher)) + ":");
  return map;
}

std::vector<train::StatePair> state_pairs(const config::Config& input, const model::ModelPlan& student,
                                          const model::ModelPlan& teacher) {
  const bool squares = input.distills_by(config::hidden_squares_word);
  const bool cosine = input.distills_by(config::hidden_cosine_word);
  if (!compares_states(input)) return {};
  const std::int64_t here = columns_of(student), there = columns_of(teacher);
  if (cosine && here != there) {
    throw Error(ExitCode::input,
                "[distill] losses: \"hidden_cosine\" compares hidden states of equal size, but the student's have " +
                    core::counted(here, "column") + " and the teacher's " + std::to_string(there) +
                    ": remove it, or set [model] hidden_size = " + std::to_string(there) + ".");
  }
  if (here != there) require_projections(input);
  std::vector<train::StatePair> pairs;
  if (squares) {
    const Counts map = layer_map_of(input, blocks_of(student), blocks_of(teacher));
    if (input.distill.match_embeddings) pairs.push_back({0, 0, {.squares = 1}});
    for (std::int64_t block = 0; block < std::ssize(map); ++block) {
      const std::int64_t read = map[static_cast<std::size_t>(block)];
      pairs.push_back({edge_behind(student, block), edge_behind(teacher, read), {.squares = 1}});
    }
  }
  if (cosine) {
    const train::StatePair last{student.sublayer_count(), teacher.sublayer_count(), {.cosine = 1}};
    if (!pairs.empty() && pairs.back().teacher == last.teacher) {
      pairs.back().terms.cosine = 1;
    } else {
      pairs.push_back(last);
    }
  }
  return pairs;
}

std::vector<train::AttentionPair> attention_pairs(const config::Config& input, const model::ModelConfig& student,
                                                  const model::ModelConfig& teacher) {
  if (!compares_attention(input)) return {};
  if (student.num_attention_heads != teacher.num_attention_heads) {
    throw Error(ExitCode::input,
                "[distill] losses: \"attention_mse\" compares each head with one of the teacher's, but "
                "the student has " +
                    core::counted(student.num_attention_heads, "head") + " and the teacher " +
                    std::to_string(teacher.num_attention_heads) + ": remove it, or set [model] num_attention_heads = " +
                    std::to_string(teacher.num_attention_heads) + ".");
  }
  const Counts map = layer_map_of(input, student.num_hidden_layers, teacher.num_hidden_layers);
  std::vector<train::AttentionPair> pairs;
  for (std::int64_t block = 0; block < std::ssize(map); ++block) {
    pairs.push_back({block, map[static_cast<std::size_t>(block)]});
  }
  return pairs;
}

std::vector<train::StatePair> edges_behind(const std::vector<train::AttentionPair>& pairs,
                                           const model::ModelPlan& student, const model::ModelPlan& teacher) {
  const auto behind = [](const model::ModelPlan& plan, std::int64_t block) {
    const auto found = std::find_if(plan.sublayers.begin(), plan.sublayers.end(), [block](const auto& sublayer) {
      return sublayer.block == block && sublayer.kind->mixes_tokens();
    });
    core::require(found != plan.sublayers.end(), "attention: a block without");
    return found - plan.sublayers.begin() + 1;
  };
  std::vector<train::StatePair> edges;
  for (const train::AttentionPair& pair : pairs) {
    edges.push_back({behind(student, pair.student), behind(teacher, pair.teacher), {}});
  }
  return edges;
}

bool projects_states(const config::Config& input, const model::ModelPlan& student, const model::ModelPlan& teacher) {
  return input.distills_by(config::hidden_squares_word) && columns_of(student) != columns_of(teacher);
}

void add_projections(const config::Config& input, std::int64_t columns, model::ModelPlan& plan) {
  const std::string begin = "distillation.";
  const std::int64_t in = columns_of(plan);
  if (input.distill.match_embeddings) plan.projections.push_back({0, begin + "embeddings", in, columns});
  for (std::int64_t block = 0; block < blocks_of(plan); ++block) {
    plan.projections.push_back({edge_behind(plan, block), begin + "block." + std::to_string(block), in, columns});
  }
}

void compute_all_tokens(model::ModelPlan& plan) {
  plan.selects_from = std::max(plan.selects_from, plan.sublayer_count());
}

bool reads_last_state(std::span<const std::int64_t> edges, const model::ModelPlan& plan) {
  return std::find(edges.begin(), edges.end(), plan.sublayer_count()) != edges.end();
}

/// Part p ends in [lowest, highest]: behind the teacher's states that belong to parts up to p, before those of others.
std::vector<std::int64_t> aligned_balance(std::span<const train::StatePair> pairs,
                                          std::span<const std::int64_t> student,
                                          std::span<const std::int64_t> teacher) {
  const std::size_t parts = student.size();
  core::require(teacher.size() == parts && parts > 0, "both models have as many parts");
  Counts lowest, highest, ends;
  std::int64_t here = 0, there = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    here += student[p];
    there += teacher[p];
    ends.push_back(there);
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();
    for (const train::StatePair& pair : pairs) {
      if (pair.student <= here) {
        low = std::max(low, pair.teacher);
      } else {
        high = std::min(high, pair.teacher - 1);
      }
    }
    lowest.push_back(std::max(low, p == 0 ? 1 : lowest.back() + 1));
    highest.push_back(high);
  }
  lowest.back() = highest.back() = ends.back();
  for (std::size_t p = parts - 1; p-- > 0;) highest[p] = std::min(highest[p], highest[p + 1] - 1);
  Counts balance;
  std::int64_t before = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::int64_t low = std::max(lowest[p], before + 1);
    if (low > highest[p]) {
      throw Error(ExitCode::input,
                  "[distill] layer_map on [parallel] pipeline × virtual_stages = " + std::to_string(parts) +
                      " parts must ascend from part to part, as what is compared lies on one rank: change it, or set "
                      "pipeline = 1.");
    }
    const std::int64_t end = std::clamp(ends[p], low, highest[p]);
    balance.push_back(end - before);
    before = end;
  }
  return balance;
}

std::string states_text(const config::Config& input, std::int64_t student, std::int64_t teacher) {
  std::string text;
  if (input.distills_by(config::hidden_squares_word)) {
    const Counts map = layer_map_of(input, student, teacher);
    text = std::string(config::hidden_squares_word) + " compares " +
           (input.distill.match_embeddings ? "the embeddings and " : "") + "the student's blocks 0 to " +
           std::to_string(student - 1) + " with the teacher's " + map_text(map) +
           (input.distill.layer_map.empty() ? " (evenly spaced)" : "");
  }
  if (input.distills_by(config::hidden_cosine_word)) {
    text += (text.empty() ? "" : "; ") + std::string(config::hidden_cosine_word) + " compares the last blocks";
  }
  if (compares_attention(input)) {
    const Counts map = layer_map_of(input, student, teacher);
    text += (text.empty() ? "" : "; ") + std::string(config::attention_squares_word) +
            " compares the student's blocks 0 to " + std::to_string(student - 1) + " with the teacher's " +
            map_text(map) + (input.distill.layer_map.empty() ? " (evenly spaced)" : "");
  }
  return text;
}

}  // namespace bert_hpc::app
