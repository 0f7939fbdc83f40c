#include "app/engine/sentence_modules.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/run/collective.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/embedding.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

std::optional<model::SentenceModules> modules_of(const config::Config& input, std::int64_t hidden) {
  if (!input.model.pretrained) return std::nullopt;
  std::optional<model::SentenceModules> modules = model::read_sentence_modules(*input.model.pretrained);
  if (modules && modules->dimensions > 0 && modules->dimensions != hidden) {
    throw core::Error(core::ExitCode::input,
                      *input.model.pretrained + ": its pooling is of " + std::to_string(modules->dimensions) +
                          " dimensions (word_embedding_dimension), and the model in config.json has " +
                          std::to_string(hidden) + " (hidden_size): these files are of different models.");
  }
  return modules;
}

model::SentencePrompts prompts_of(const config::Config& input) {
  return input.model.pretrained ? model::read_sentence_prompts(*input.model.pretrained) : model::SentencePrompts();
}

bool has(const model::SentencePrompts& prompts, const std::string& text) {
  return std::ranges::any_of(prompts.texts, [&](const auto& use) { return use.second == text; });
}

/// The prompts of a model that is trained on the shards: the pretrained model's, unless the shards have others. Their
/// names are those of sentence-transformers' encode_query() and encode_document().
model::SentencePrompts prompts_of(const config::Config& input, const data::ShardInfo& shards) {
  const data::ShardPrompts own = data::prompts_from_json(shards.tokenizer, "the shards");
  model::SentencePrompts prompts = prompts_of(input);
  if (own.text.empty() && own.text_pair.empty()) return prompts;
  if (has(prompts, own.text) && has(prompts, own.text_pair)) return prompts;
  return {.texts = {{"query", own.text}, {"document", own.text_pair}}, .default_name = ""};
}

}  // namespace

void settle_pooling(config::Config& input, std::int64_t hidden) {
  for (const double columns : input.task.list(tasks::dimensions_key).numbers) {
    if (columns <= static_cast<double>(hidden)) continue;
    throw core::Error(core::ExitCode::input, "[task] dimensions has " + core::format_number(columns) +
                                                 ", and embeddings of this model have " + std::to_string(hidden) +
                                                 " columns (hidden_size): name at most as many.");
  }
  if (input.embeds()) {
    config::Embed& embed = input.embed;
    std::optional<model::SentenceModules> modules;
    if (!embed.pooling) modules = modules_of(input, hidden);
    if (!embed.pooling) embed.pooling = modules ? modules->pooling : "cls";
    if (!embed.normalize) embed.normalize = modules && modules->normalize;
  } else if (tasks::named(input.task.name).embeds_texts) {
    std::optional<std::string>& pooling = input.task.words[tasks::pooling_key];
    if (pooling) return;
    const std::optional<model::SentenceModules> modules = modules_of(input, hidden);
    pooling = modules ? modules->pooling : "mean";
  }
}

model::NamedTexts sentence_files_of(const config::Config& input, const ModelInstance& model,
                                    const data::ShardInfo& shards) {
  if (!model.objective.task->embeds_texts) return {};
  // Losses that compare cosines do not train lengths of embeddings.
  const ops::Similarity similarity = objectives::trained_similarity(input.task);
  const bool is_cosine = similarity == ops::Similarity::cosine;
  return model::sentence_files({.pooling = input.task.word(tasks::pooling_key),
                                .normalize = is_cosine,
                                .similarity = is_cosine                            ? "cosine"
                                              : similarity == ops::Similarity::dot ? "dot"
                                                                                   : "euclidean",
                                .dimensions = model.outputs(),
                                .max_tokens = data::max_tokens_from_json(shards.tokenizer, "the shards"),
                                .prompts = prompts_of(input, shards)});
}

namespace {

/// The data sets whose texts have none of the prompts of the pretrained model's folder, with what to change; "" if
/// there are none, or the folder has no prompts.
std::string prompt_warning(const config::Config& input, const DataSets& sets) {
  const model::SentencePrompts prompts = prompts_of(input);
  std::string list;
  for (const auto& [use, text] : prompts.texts) {
    constexpr std::size_t longest = 60;
    if (!text.empty()) list += (list.empty() ? "\"" : ", \"") + core::printable(text, longest) + '"';
  }
  if (list.empty()) return "";
  std::vector<std::string> lacking;
  for (const auto& [name, reader] :
       {std::pair("train", sets.train.get()), std::pair("validation", sets.validation.get()),
        std::pair("test", sets.test.get())}) {
    if (reader == nullptr || reader->info().tokenizer.empty()) continue;  // of a plan without data
    const data::ShardPrompts own = data::prompts_from_json(reader->info().tokenizer, reader->files().front());
    const auto is_known = [&](const std::string& text) { return !text.empty() && has(prompts, text); };
    if (!is_known(own.text) && !is_known(own.text_pair)) lacking.emplace_back(name);
  }
  if (lacking.empty()) return "";
  return "the folder '" + *input.model.pretrained + "' has prompts for its texts (" + list +
         "), and bert_hpc_prep has put none of them before those of " + core::listed(lacking, "and", false) +
         ": name them in [source] prompt and prompt_pair of its input, unless the texts have them already";
}

}  // namespace

void warn_of_prompts(const RunContext& context, const DataSets& sets) {
  std::string warning;
  collectively(context.world, [&] {
    if (context.world.rank() == 0) warning = prompt_warning(context.input, sets);
  });
  if (!warning.empty()) context.log.warning(warning);
}

}  // namespace bert_hpc::app
