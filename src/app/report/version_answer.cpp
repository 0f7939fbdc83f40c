#include "app/report/version_answer.hpp"

#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/config/example_input.hpp"
#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/ops/build_description.hpp"

namespace bert_hpc::app {

namespace {

core::VersionFacts version_facts() {
  core::VersionFacts facts = {{"instructions", ops::instruction_sets()}};
  for (const auto& [name, value] : io::collect_provenance()) {
    if (name != "host") facts.emplace_back(name, name == "compiler" ? "g++ " + value : value);
  }
  facts.emplace_back("MPI", comm::MpiRuntime::description());
  facts.emplace_back("kernels", core::DeviceRuntime::description());
  facts.emplace_back("matmul", core::listed(ops::matmul_libraries(), "and", false));
  facts.emplace_back("GPU to GPU", comm::device_communication());
  facts.emplace_back("input files", config::toml_library());
  return facts;
}

}  // namespace

std::string answer(const config::CommandLine& line, const config::Program& program) {
  using Action = config::CommandLine::Action;
  if (line.action == Action::help) return config::help_text(program);
  if (line.action == Action::example) return std::string(config::example_input(program.name));
  return core::version_text(program.name, version_facts());
}

}  // namespace bert_hpc::app
