// Input files of bert_hpc_prep, and machine descriptions.
#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(fuzz::text(data, size));
  fuzz::accepts([&] { config::parse_machine_text(input, "machine.toml", "fp32"); });
  prep::PrepConfig config;
  if (!fuzz::accepts([&] { config = prep::parse_prep_config(input, "prep.toml", {}); })) return 0;
  const std::string resolved = prep::resolved_toml(config);
  prep::PrepConfig again;
  fuzz::require(fuzz::accepts([&] { again = prep::parse_prep_config(resolved, "resolved", {}); }),
                "a resolved input is an input");
  fuzz::require(prep::resolved_toml(again) == resolved, "a resolved input reads back as the same");
  return 0;
}
