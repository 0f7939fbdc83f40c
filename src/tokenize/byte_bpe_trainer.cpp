#include <unordered_map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/byte_bpe.hpp"
#include "byte_bpe_json.hpp"
#include "pair_merges.hpp"

namespace bert_hpc::tokenize {
namespace {

/// RoBERTa's special tokens, or GPT-2's only one in the role of unknown tokens, with the numbers of their roles as ids.
std::vector<AddedToken> special_numbers(bool ends_texts) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < special_roles.size(); ++i) {
    if (ends_texts && special_roles[i].id != &SpecialIds::unk) continue;
    tokens.push_back(roberta_token(special_roles[i].id));
    if (ends_texts) tokens.back().content = end_of_text;
    tokens.back().id = static_cast<std::int32_t>(i);
  }
  return tokens;
}

}  // namespace

ByteBpeTrainer::ByteBpeTrainer(const TokenizerSettings& settings, bool ends_texts)
    : add_prefix_space_(resolved(byte_bpe_kind(), settings).at(add_prefix_space_key)),
      ends_texts_(ends_texts),
      specials_(special_numbers(ends_texts), std::nullopt) {}

void ByteBpeTrainer::read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) {
  if (!is_valid_utf8(text)) {
    valid_ = valid_utf8(text);
    text = valid_;
  }
  const ByteWords splitter(WordPattern::gpt2);
  const auto on_text = [&](const TextPart& part) {
    std::string_view own = part.text;
    if (add_prefix_space_ && own.front() != ' ') {
      prefixed_.assign(1, ' ').append(own);
      own = prefixed_;
    }
    splitter.split(own, [&](std::string_view word) {
      printable_.clear();
      append_printable(word, printable_);
      numbers.push_back(words.number_of(std::string_view(printable_)));
    });
  };
  specials_.split(text, unused_, on_text, [&](std::int32_t number, const TextPart&) { numbers.push_back(number); });
}

TrainedVocabulary ByteBpeTrainer::train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const {
  if (words.empty()) throw core::Error(core::ExitCode::data, "The text has no words to train a vocabulary on.");
  TrainedVocabulary trained;
  std::vector<std::string>& tokens = trained.vocabulary;
  std::unordered_map<std::string, std::int32_t> ids;
  const auto add = [&](const std::string& token) {
    const auto [entry, is_new] = ids.try_emplace(token, static_cast<std::int32_t>(tokens.size()));
    if (is_new) tokens.push_back(token);
    return entry->second;
  };
  if (ends_texts_) {
    trained.sections = text_of(ByteBpeForm());
    add(end_of_text);
  } else {
    for (const auto role : roberta_order) add(roberta_token(role).content);
  }
  for (const std::string& byte : printable_alphabet()) add(byte);
  if (static_cast<std::int32_t>(tokens.size()) > size) {
    throw core::Error(core::ExitCode::data, "A byte-level vocabulary has " + std::to_string(tokens.size()) +
                                                " special tokens and bytes, more than the " + std::to_string(size) +
                                                " tokens that are to be trained; raise [tokenizer] train_size.");
  }
  std::vector<TrainingWord> counted;
  std::string bytes;
  for (const WordCounts::Entry& entry : words) {
    bytes.clear();
    append_bytes_of(entry.word, bytes);
    TrainingWord word{{}, entry.count};
    for (const char byte : bytes) word.pieces.push_back(ids.at(printable_bytes({&byte, 1})));
    counted.push_back(std::move(word));
  }
  merge_pairs(
      std::move(counted), [&] { return static_cast<std::int32_t>(tokens.size()) < size; },
      [&](std::int32_t left, std::int32_t right) {
        const std::string a = tokens[static_cast<std::size_t>(left)], b = tokens[static_cast<std::size_t>(right)];
        trained.merges.push_back(a + ' ' + b);
        return add(a + b);
      });
  return trained;
}

}  // namespace bert_hpc::tokenize
