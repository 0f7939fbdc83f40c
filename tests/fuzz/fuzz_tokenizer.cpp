// WordPiece on any bytes, with a vocabulary that the input's first part may add to; vocab.txt itself; and an input that
// begins with a brace as tokenizer.json, with a line feed as sentencepiece.bpe.model: there it is the key of a piece.
#include <filesystem>
#include <fstream>

#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

namespace {

/// A tokenizer whose model each input replaces.
struct Folder {
  std::string path = "/dev/shm/bert_hpc_fuzz_XXXXXX";

  Folder() {
    fuzz::require(mkdtemp(path.data()) != nullptr, "a folder in memory can be had");
    write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const char* name, std::string_view bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  }
};

/// The tokenizer is written, read and written again; and it takes any text.
void use(const tokenize::TokenizerKind& kind, tokenize::TokenizerParts parts) {
  if (!tokenize::settle_added_tokens(parts.vocabulary, parts.added, tokenize::implied_tokens(kind, parts)).empty())
    return;
  const auto tokenizer = kind.make(parts, "fuzz");
  const tokenize::TokenizerSpec spec = tokenizer->spec();
  const fuzz::File written(spec.text);
  tokenize::TokenizerJson again = tokenize::read_tokenizer_json(written.path());
  fuzz::require(again.problems.empty() && again.vocabulary_problem.empty(), "what is written can be read");
  tokenize::settle_added_tokens(again.parts.vocabulary, again.parts.added, tokenize::implied_tokens(kind, again.parts));
  fuzz::require(kind.make(again.parts, "fuzz")->spec().text == spec.text, "what is written is what was read");
  std::vector<std::int32_t> ids;
  std::vector<tokenize::TokenSpan> spans;
  tokenizer->encoder()->encode_with_spans(spec.text, ids, spans);
  fuzz::require(ids.size() == spans.size(), "each token has a span");
}

void read_json(std::string_view text) {
  const fuzz::File file(text);
  fuzz::accepts([&] {
    const tokenize::TokenizerJson read = tokenize::read_tokenizer_json(file.path());
    const tokenize::TokenizerKind* const kind = tokenize::find_tokenizer_model(read.kind);
    const bool no_vocabulary = kind == nullptr || !read.vocabulary_problem.empty();
    const std::vector<std::string>& pieces = read.parts.vocabulary;
    const tokenize::TokenizerSettings& settings = read.parts.settings;
    fuzz::require(pieces.empty() == no_vocabulary, "there is a vocabulary or a reason why not");
    const bool lacks_settings = kind != nullptr && !kind->keys.empty() && settings.empty();
    fuzz::require(!lacks_settings || !read.problems.empty(), "there are switches or a reason why not");
    if (pieces.empty() || lacks_settings) return;
    if (kind != &tokenize::wordpiece_kind()) {
      if (read.problems.empty()) use(*kind, read.parts);
      return;
    }
    const tokenize::Vocabulary vocabulary(pieces, "fuzz");
    const fuzz::File written(tokenize::tokenizer_json_text(vocabulary, tokenize::form_of(settings)));
    const tokenize::TokenizerJson again = tokenize::read_tokenizer_json(written.path());
    fuzz::require(again.problems.empty() && again.vocabulary_problem.empty(), "what is written can be read");
    fuzz::require(again.parts.vocabulary == pieces && again.parts.settings == settings,
                  "what is written is what was read");
  });
}

void read_model(std::string_view bytes) {
  static const Folder folder;
  folder.write("sentencepiece.bpe.model", bytes);
  fuzz::accepts([&] {
    const tokenize::TokenizerFolder read = tokenize::read_tokenizer_folder(folder.path);
    fuzz::require(read.has_vocabulary() || !read.problems.empty(), "there is a vocabulary or a reason why not");
    if (read.problems.empty()) use(*read.kind, read.parts);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all = fuzz::text(data, size);
  if (all.starts_with('{')) {
    read_json(all);
    return 0;
  }
  if (all.starts_with('\n')) {
    read_model(all);
    return 0;
  }
  const std::size_t cut = all.find('\0');
  const std::string_view pieces = cut == std::string_view::npos ? std::string_view() : all.substr(0, cut);
  const std::string_view text = cut == std::string_view::npos ? all : all.substr(cut + 1);
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n##c\nab\n.\n";
  const fuzz::File file(special + std::string(pieces));
  fuzz::accepts([&] {
    const tokenize::Vocabulary vocabulary(tokenize::Vocabulary::lines_of(file.path()), "fuzz");
    const tokenize::TextForm form{
        .lowercase = size % 2 == 0, .strip_accents = size % 4 == 0, .tokenize_chinese_chars = size % 8 < 4};
    tokenize::WordPieceEncoder encoder(vocabulary, form);
    std::vector<std::int32_t> once, twice;
    encoder.encode(text, once);
    encoder.encode(text, twice);  // words come from its cache now
    fuzz::require(once == twice, "the same text has the same ids");
    std::vector<tokenize::TokenSpan> spans;
    twice.clear();
    encoder.encode_with_spans(text, twice, spans);
    fuzz::require(once == twice && spans.size() == once.size(), "each token has a span");
    const std::int64_t characters = tokenize::count_characters(text);
    for (const tokenize::TokenSpan& span : spans) {
      fuzz::require(span.begin >= 0 && span.begin < span.end && span.end <= characters, "spans lie in the text");
    }
    for (const std::int32_t id : once) fuzz::require(id >= 0 && id < vocabulary.size(), "ids lie in the vocabulary");
  });
  return 0;
}
