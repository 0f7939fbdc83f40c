#include "bert_hpc/prep/version_facts.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/tokenize/characters.hpp"
#include "readers/decompressor.hpp"
#include "readers/parquet_file.hpp"

namespace bert_hpc::prep {

core::VersionFacts version_facts() {
  core::VersionFacts facts;
  for (const auto& [name, value] : io::collect_provenance()) {
    if (name != "host") facts.emplace_back(name, name == "compiler" ? "g++ " + value : value);
  }
  facts.emplace_back("MPI", comm::MpiRuntime::description());
  facts.emplace_back("input files", config::toml_library());
  facts.emplace_back("JSON", "nlohmann-json " + std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + '.' +
                                 std::to_string(NLOHMANN_JSON_VERSION_MINOR) + '.' +
                                 std::to_string(NLOHMANN_JSON_VERSION_PATCH));
  facts.emplace_back("compression", zstd_version().empty() ? "gzip" : "gzip, Zstandard " + zstd_version());
  facts.emplace_back("Parquet", parquet_version().empty() ? "not read" : "Arrow " + parquet_version());
  facts.emplace_back("characters", std::string("as in Hugging Face ") + tokenize::character_table_source());
  return facts;
}

}  // namespace bert_hpc::prep
