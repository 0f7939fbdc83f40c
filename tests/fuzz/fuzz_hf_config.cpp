// config.json of a Hugging Face folder: what is accepted is written back as text that reads as the same.
#include "bert_hpc/model/hf_config.hpp"

#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  model::ModelConfig config;
  if (!fuzz::accepts([&] { config = model::parse_hf_config(std::string(fuzz::text(data, size)), "config.json"); }))
    return 0;
  if (config.label_names.size() > 4096) return 0;  // a million names take a second as JSON, and hundreds of megabytes
  const layers::HeadKind head{.class_suffix = "ForSequenceClassification"};
  const std::string text = model::hf_config_text(config, head);
  model::ModelConfig again;
  fuzz::require(fuzz::accepts([&] { again = model::parse_hf_config(text, "written"); }), "what we write we read");
  fuzz::require(model::hf_config_text(again, head) == text, "and as the same");
  return 0;
}
