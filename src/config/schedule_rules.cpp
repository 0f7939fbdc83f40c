#include "schedule_rules.hpp"

#include <string>
#include <utility>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::config {

std::vector<ConfigProblem> schedule_problems(const Config& config) {
  const Schedule& s = config.schedule;
  std::vector<ConfigProblem> problems;
  const auto rule = [&problems](bool holds, const std::string& key, const std::string& text,
                                std::vector<std::string> alternatives = {}) {
    if (!holds) problems.push_back({key, text, std::move(alternatives)});
  };
  const auto one_of = [&](const std::vector<std::pair<const char*, bool>>& keys) {
    std::vector<std::string> given;
    for (const auto& [key, is_given] : keys) {
      if (is_given) given.emplace_back(key);
    }
    if (given.size() < 2) return;
    rule(false, "schedule." + given.back(),
         "[schedule] " + core::listed(given, "and", false) + (given.size() == 2 ? " are both" : " are all") +
             " given: keep one of them.");
  };
  one_of({{"warmup_steps", s.warmup_steps.has_value()},
          {"warmup_ratio", s.warmup_ratio.has_value()},
          {"warmup_tokens", s.warmup_tokens.has_value()}});
  one_of({{"epochs", s.epochs.has_value()}, {"steps", s.steps.has_value()}, {"tokens", s.tokens.has_value()}});
  one_of({{"decay_steps", s.decay_steps.has_value()},
          {"decay_ratio", s.decay_ratio.has_value()},
          {"decay_tokens", s.decay_tokens.has_value()}});
  for (const auto& [key, length] : {std::pair("warmup_tokens", &s.warmup_tokens), {"decay_tokens", &s.decay_tokens}}) {
    rule(!*length || s.tokens, std::string("schedule.") + key,
         std::string("[schedule] ") + key + " needs the length of the training in tokens: set tokens.");
  }
  if (s.tokens) {
    rule(s.warmup_tokens.value_or(0) + s.decay_tokens.value_or(0) <= *s.tokens, "schedule.tokens",
         "[schedule] warmup_tokens + decay_tokens is more than tokens: the peak learning rate would never be reached.");
  }
  if (config.run.mode == "train") {
    rule(s.epochs || s.steps || s.tokens, "schedule.epochs",
         "[schedule] epochs is missing: set epochs, steps or tokens.", {"schedule.steps", "schedule.tokens"});
    rule(config.optimizer.learning_rate.has_value(), "optimizer.learning_rate",
         "[optimizer] learning_rate is missing: 2e-5 to 5e-5 is usual for a pretrained model, 1e-4 to 1e-3 from "
         "scratch.");
  }
  rule(config.optimizer.decay != "independent" || config.optimizer.name != "lamb", "optimizer.decay",
       "[optimizer] decay = \"independent\" does not go with name = \"lamb\", which scales a tensor's whole update.");
  if (s.steps && s.warmup_steps) {
    rule(*s.warmup_steps <= *s.steps, "schedule.warmup_steps",
         "[schedule] warmup_steps = " + std::to_string(*s.warmup_steps) +
             " is more than steps = " + std::to_string(*s.steps) + ": the peak learning rate would never be reached.");
  }
  const bool polynomial = s.name == "polynomial", decays = s.name == "warmup_stable_decay";
  rule(!s.power || polynomial, "schedule.power", "[schedule] power belongs to name = \"polynomial\": remove it.");
  rule(!s.end_factor || polynomial || decays, "schedule.end_factor",
       "[schedule] end_factor belongs to name = \"polynomial\" and \"warmup_stable_decay\": remove it.");
  const char* const given = s.decay_steps    ? "decay_steps"
                            : s.decay_ratio  ? "decay_ratio"
                            : s.decay_tokens ? "decay_tokens"
                                             : "decay";
  rule(decays || (!s.decay_steps && !s.decay_ratio && !s.decay_tokens && !s.decay), std::string("schedule.") + given,
       std::string("[schedule] ") + given + " belongs to name = \"warmup_stable_decay\": remove it.");
  if (s.steps && s.decay_steps) {
    rule(*s.decay_steps + s.warmup_steps.value_or(0) <= *s.steps, "schedule.decay_steps",
         "[schedule] warmup_steps + decay_steps = " + std::to_string(*s.decay_steps + s.warmup_steps.value_or(0)) +
             " is more than steps = " + std::to_string(*s.steps) + ": the rate would fall before it is at its peak.");
  }
  rule(s.warmup_ratio.value_or(0) + s.decay_ratio.value_or(0) <= 1, "schedule.decay_ratio",
       "[schedule] warmup_ratio + decay_ratio is more than 1: the rate would fall before it is at its peak.");
  return problems;
}

}  // namespace bert_hpc::config
