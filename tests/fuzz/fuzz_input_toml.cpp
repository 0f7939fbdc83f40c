// Input files of bert_hpc: an accepted input is written back as text that reads as the same input.
#include "../support/parsed_input.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The text after a zero byte is one --set.
  const std::string_view all = fuzz::text(data, size);
  const std::size_t cut = all.find('\0');
  std::vector<std::string> overrides;
  if (cut != std::string_view::npos) overrides.emplace_back(all.substr(cut + 1));
  const config::Config defaults = config::default_config(
      {{.name = "adamw",
        .settings = {{.key = "beta1", .value = 0.9, .limits = {.low = 0, .high = 1, .high_open = true}}}}},
      {{.name = "bert",
        .keys = {{.key = "hidden_dropout_prob", .limits = {.low = 0, .high = 1}},
                 {.key = "pooling", .words = {"cls", "mean"}}}},
       {.name = "distilbert"}});
  config::Config config;
  if (!fuzz::accepts(
          [&] { config = test::parsed_input(std::string(all.substr(0, cut)), "input.toml", overrides, defaults); })) {
    return 0;
  }
  const std::string resolved = config::to_toml(config);
  config::Config again;
  fuzz::require(fuzz::accepts([&] { again = test::parsed_input(resolved, "resolved", {}, defaults); }),
                "a resolved input is an input");
  fuzz::require(config::to_toml(again) == resolved, "a resolved input reads back as the same");
  return 0;
}
