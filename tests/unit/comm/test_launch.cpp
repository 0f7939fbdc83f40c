#include "bert_hpc/comm/launch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <string>

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("processes that were started together, but are each alone, get an error with the cause") {
  const auto found = [](int size, const std::map<std::string, std::string>& environment) {
    return comm::launch_problem(size, [&](const char* name) {
      const auto entry = environment.find(name);
      return entry == environment.end() ? std::string() : entry->second;
    });
  };
  CHECK(found(1, {}).text.empty());
  CHECK(found(1, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}).text.empty());
  CHECK(found(2, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}}).text.empty());
  CHECK(found(1, {{"SLURM_STEP_NUM_TASKS", "2"}}).text.empty());  // of a job's script, not of a task
  const auto alone = found(1, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
  CHECK_THAT(alone.text, ContainsSubstring("one of 2 processes that srun started") && ContainsSubstring("--mpi=pmix"));
  CHECK(alone.is_first);
  CHECK_FALSE(found(1, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}).is_first);
  // mpirun starts its daemons by a step of a task per node.
  CHECK(found(1, {{"OMPI_COMM_WORLD_SIZE", "1"},
                  {"OMPI_COMM_WORLD_RANK", "0"},
                  {"SLURM_STEP_NUM_TASKS", "2"},
                  {"SLURM_PROCID", "1"}})
            .text.empty());
  CHECK_THAT(found(1, {{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}}).text, ContainsSubstring("another MPI"));
}

TEST_CASE("a process starts alone if no launcher's variable is set") {
  const auto alone = [](const std::string& set) {
    return comm::starts_alone([&](const char* name) { return std::string(name == set ? "0" : ""); });
  };
  CHECK(alone(""));
  CHECK(alone("SLURM_PROCID"));  // of a job's script too
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"}) CHECK_FALSE(alone(name));
}
