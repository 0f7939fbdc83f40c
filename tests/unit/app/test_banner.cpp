#include "app/report/banner.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/report/run_warnings.hpp"

using namespace bert_hpc::app;
using Catch::Matchers::ContainsSubstring;

namespace {

RankPlacement rank(const std::string& host, int threads, std::vector<int> cores, std::vector<int> numa = {0}) {
  return {host, "CPU", threads, std::move(cores), std::move(numa)};
}

/// (GCC 12 warns wrongly of "node" + std::to_string(i).)
std::string numbered(std::string name, int number) {
  return name.append(std::to_string(number));
}

}  // namespace

TEST_CASE("the banner shows ranks, cores, layout and sizes") {
  BannerFacts facts;
  facts.version = "0.1.0";
  facts.revision = "abc";
  facts.libraries = {"Kokkos 3.4.1", "oneDNN 2.6.3"};
  facts.processor = "Some Processor";
  facts.instruction_sets = "AVX2";
  facts.ranks = {rank("n1", 1, {0}), rank("n1", 1, {1})};
  facts.layout = "data 2";
  facts.parameters = 4385920;
  facts.flops_per_token = 12.3e6;
  facts.memory = {{"parameters", 1 << 20}, {"activations", 1 << 21}};
  const std::string text = banner(facts);
  for (const char* expected :
       {"bert_hpc 0.1.0 (abc)\n", "libraries   Kokkos 3.4.1 and oneDNN 2.6.3\n", "Some Processor (AVX2)",
        "2 ranks on 1 node\n", "n1, from rank 0:\n", "0: 1 thread on core 0 (NUMA node 0)\n", "1: 1 thread on core 1",
        "parameters  4,385,920\n", "12.3 MFLOP per token (training)",
        "3.0 MiB per rank (parameters 1.0 MiB, activations 2.0 MiB)"}) {
    CHECK_THAT(text, ContainsSubstring(expected));
  }
}

TEST_CASE("a plan beyond the available memory is warned of") {
  const std::int64_t gib = std::int64_t{1} << 30;
  CHECK(memory_warning(4 * gib, 2, 8 * gib, "this node").empty());
  CHECK(memory_warning(4 * gib, 3, 0, "this node").empty());
  CHECK_THAT(memory_warning(4 * gib, 3, 8 * gib, "this node"),
             ContainsSubstring("planned memory: 4.0 GiB for each of 3 ranks, but this node has 8.0 GiB"));
  CHECK_THAT(memory_warning(4 * gib, 1, 2 * gib, "a rank of X"),
             ContainsSubstring("planned memory: 4.0 GiB per rank, but a rank of X has 2.0 GiB"));
  // Four pebibytes on as many ranks as there may be: more than 64 bits hold.
  CHECK_THAT(memory_warning(gib << 22, 1 << 24, 8 * gib, "this node"), ContainsSubstring("4.0 PiB"));
}

TEST_CASE("a plan that a CPU build makes for GPUs says what differs there") {
  bert_hpc::core::MachineDescription cpus, gpus;
  gpus.name = "Y";
  gpus.gpu = true;
  CHECK(build_note(false, cpus).empty());
  CHECK(build_note(true, gpus).empty());
  CHECK_THAT(build_note(false, gpus),
             ContainsSubstring("note: Y has GPUs, and a CPU build made this plan: \"packed weights and scratch\""));
}

TEST_CASE("a warm-up longer than the run and a batch larger than the data give warnings") {
  bert_hpc::config::Config input;
  input.batch.global = 64;
  input.schedule.warmup_steps = 10;
  CHECK(training_warnings(input, 10, 64).empty());
  const std::vector<std::string> warnings = training_warnings(input, 9, 63);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] ==
        "schedule.warmup_steps = 10 is more than the run's 9 steps: the peak learning rate is never reached");
  CHECK(warnings[1] == "batch.global = 64 is more than the 63 sequences to train on: every update takes all of them");
}

TEST_CASE("the banner distinguishes planned ranks from the ranks that check") {
  BannerFacts facts;
  facts.ranks = {rank("n1", 1, {0})};
  facts.layout = "data 8 × pipeline 1 × tensor 1";
  CHECK_THAT(banner(facts), ContainsSubstring("ranks       1 rank on 1 node\n"));
  facts.planned_ranks = 8;
  CHECK_THAT(banner(facts), ContainsSubstring("ranks       8 planned; this check runs on 1 rank on 1 node\n"));
}

TEST_CASE("a thousand equal ranks fit on a screen") {
  BannerFacts facts;
  for (int host = 0; host < 64; ++host) {
    for (int r = 0; r < 16; ++r) {
      facts.ranks.push_back(rank(numbered("node", host), 4, {4 * r, 4 * r + 1, 4 * r + 2, 4 * r + 3}, {r / 8}));
    }
  }
  const std::string text = banner(facts);
  CHECK(std::count(text.begin(), text.end(), '\n') < 10);
  CHECK_THAT(text, ContainsSubstring("1,024 ranks on 64 nodes"));
  CHECK_THAT(text, ContainsSubstring("64 nodes, node0 to node63, from rank 0:"));
  CHECK_THAT(text, ContainsSubstring("16 ranks, each 4 threads on cores 0-63 (NUMA nodes 0-1) in all"));
  CHECK(placement_warnings(facts.ranks).empty());
  for (int r = 0; r < 100; ++r) facts.ranks.push_back(rank(numbered("odd", r), r + 1, {0}));
  const std::string many = banner(facts);
  CHECK(std::count(many.begin(), many.end(), '\n') < 50);
}

TEST_CASE("ranks that share too few cores are warned with the cure") {
  // mpirun without binding on two cores, two threads a rank.
  const auto shared = placement_warnings({rank("n1", 2, {0, 1}), rank("n1", 2, {0, 1})});
  REQUIRE(shared.size() == 1);
  CHECK_THAT(shared[0],
             ContainsSubstring("on n1, 2 ranks with 4 threads in all share cores 0-1: set OMP_NUM_THREADS=1"));
  // One core for two threads, as mpirun binds one or two ranks.
  const auto bound = placement_warnings({rank("n1", 2, {0}), rank("n1", 2, {1})});
  REQUIRE(bound.size() == 1);
  CHECK_THAT(bound[0], ContainsSubstring("on n1, 2 ranks each run 2 threads on 1 core: set OMP_NUM_THREADS=1"));
  const auto more = placement_warnings({rank("n1", 1, {0}), rank("n1", 1, {0}), rank("n1", 1, {1})});
  REQUIRE(more.size() == 1);
  CHECK_THAT(more[0], ContainsSubstring("2 ranks with 2 threads in all share core 0: start fewer ranks"));
}

TEST_CASE("well mapped ranks raise no warning, equal hosts one") {
  CHECK(placement_warnings({rank("a", 1, {0, 1}), rank("a", 1, {0, 1})}).empty());
  CHECK(placement_warnings({rank("a", 2, {0, 1}), rank("b", 2, {0, 1})}).empty());
  CHECK(placement_warnings({rank("a", 8, {})}).empty());
  std::vector<RankPlacement> ranks;
  for (int host = 0; host < 40; ++host) ranks.push_back(rank(numbered("n", host), 4, {0, 1}));
  const auto warnings = placement_warnings(ranks);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("on 40 nodes, n0 to n39, a rank runs 4 threads on 2 cores"));
  // A chain: 0-1, 1-2, 2-3 are one group of four cores.
  const auto chain = placement_warnings({rank("a", 2, {0, 1}), rank("a", 2, {2, 3}), rank("a", 2, {1, 2})});
  REQUIRE(chain.size() == 1);
  CHECK_THAT(chain[0], ContainsSubstring("3 ranks with 6 threads in all share cores 0-3"));
}

TEST_CASE("ranks of a node that see one GPU each are warned that NVLink may not be used") {
  const auto on_gpu = [](const std::string& host, const std::string& identity, int visible) {
    RankPlacement placement = rank(host, 1, {});
    placement.device_identity = identity;
    placement.visible_devices = visible;
    return placement;
  };
  const auto isolated = placement_warnings({on_gpu("n1", "GPU-a", 1), on_gpu("n1", "GPU-b", 1)});
  REQUIRE(isolated.size() == 1);
  CHECK_THAT(isolated[0], ContainsSubstring("on n1, 2 ranks see only one GPU each: NCCL may then not use NVLink") &&
                              ContainsSubstring("srun --gpus-per-node=2 --gpu-bind=none"));
  // The same on two nodes is one warning.
  CHECK(placement_warnings(
            {on_gpu("n1", "GPU-a", 1), on_gpu("n1", "GPU-b", 1), on_gpu("n2", "GPU-c", 1), on_gpu("n2", "GPU-d", 1)})
            .size() == 1);
  CHECK(placement_warnings({on_gpu("n1", "GPU-a", 2), on_gpu("n1", "GPU-b", 2)}).empty());  // all see all
  CHECK(placement_warnings({on_gpu("n1", "GPU-a", 1), on_gpu("n2", "GPU-b", 1)}).empty());  // nodes of one GPU
  CHECK(placement_warnings({on_gpu("n1", "GPU-a", 1), on_gpu("n1", "GPU-a", 1)}).empty());  // one GPU is shared
  CHECK(placement_warnings({on_gpu("n1", "", 0), on_gpu("n1", "", 0)}).empty());            // CPUs
}

TEST_CASE("the banner warns of ranks far from their GPU") {
  const auto gpu = [](int core_node, int device_node) {
    RankPlacement placement = rank("n1", 1, {core_node}, {core_node});
    placement.device = "NVIDIA H200";
    placement.device_node = device_node;
    return placement;
  };
  CHECK(placement_warnings({gpu(0, 0), gpu(1, 1)}).empty());
  CHECK(placement_warnings({gpu(0, -1)}).empty());
  CHECK(placement_warnings({rank("n1", 1, {0})}).empty());
  const auto far = placement_warnings({gpu(0, 0), gpu(1, 0), gpu(2, 0)});
  REQUIRE(far.size() == 1);
  CHECK_THAT(far[0], ContainsSubstring("on n1, ranks 1-2 run far from the GPU: on NUMA node 1, the GPU on node 0"));
  CHECK_THAT(far[0], ContainsSubstring("--cpu-bind=map_ldom:LIST"));
  CHECK_THAT(placement_warnings({gpu(0, 3)})[0], ContainsSubstring("rank 0 runs far"));
  BannerFacts facts;
  facts.ranks = {gpu(1, 0)};
  CHECK_THAT(banner(facts), ContainsSubstring("(NUMA node 1, the GPU's 0)"));
}

TEST_CASE("a run on a GPU whose input does not choose a precision names bf16") {
  bert_hpc::config::Precision precision;
  CHECK_THAT(precision_note(precision, true, "", false),
             ContainsSubstring("compute is not set") && ContainsSubstring("in fp32") && ContainsSubstring("\"bf16\""));
  CHECK(precision_note(precision, false, "AVX-512, AMX", false).empty());
  precision.is_given = true;
  CHECK(precision_note(precision, true, "", false).empty());
}

TEST_CASE("a run in 16 bits on a CPU with AMX says that it does not use it") {
  bert_hpc::config::Precision precision;
  precision.compute = "bf16";
  precision.is_given = true;
  CHECK_THAT(precision_note(precision, false, "AVX2, AVX-512 BF16, AMX", false),
             ContainsSubstring("compute = \"bf16\" does not use this processor's AMX"));
  CHECK(precision_note(precision, false, "AVX2, AVX-512 BF16", false).empty());
  CHECK(precision_note(precision, true, "AMX", false).empty());
  CHECK(precision_note(precision, false, "AVX2, AVX-512 BF16, AMX", true).empty());
  precision.compute = "fp16";
  CHECK_THAT(precision_note(precision, false, "AVX2, AVX-512 BF16, AMX", true),
             ContainsSubstring("compute = \"fp16\" does not use this processor's AMX"));
}
