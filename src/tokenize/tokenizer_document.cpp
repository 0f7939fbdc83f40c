#include "tokenizer_document.hpp"

#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "json_member.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

constexpr std::int64_t longest_file = std::int64_t{64} << 20;  // bytes; the largest known have 35 MB
constexpr int deepest = 16;                                    // levels; Transformers writes 7
constexpr std::size_t max_values = 200000;                     // besides model.vocab and model.merges

class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(const std::string& path, TokenizerDocument& document) : path_(path), document_(document) {}

  bool start_object(std::size_t) override { return begin(json::object()); }
  bool start_array(std::size_t) override { return begin(json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool null() override { return value(nullptr); }
  bool boolean(bool truth) override { return value(truth); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const json::exception& problem) override {
    std::string reason = problem.what();
    if (const std::size_t cut = reason.find("] "); cut != std::string::npos) reason.erase(0, cut + 2);
    throw Error(ExitCode::files, path_ + ": is not valid JSON (" + core::printable(reason) + ").");
  }

  bool key(string_t& name) override {
    if (list_depth_ > 0) {
      if (list_depth_ == 1) piece_ = std::move(name);
      return true;
    }
    if (open_.back()->contains(name)) {
      throw Error(ExitCode::files,
                  path_ + ": the key \"" + core::printable(name, 80) + "\" occurs twice in one object.");
    }
    keys_.back() = std::move(name);
    return true;
  }

 private:
  bool in_object() const { return !open_.empty() && open_.back()->is_object(); }

  /// Does the value that begins here belong to model.vocab or model.merges?
  bool begins_long_list() const {
    return open_.size() == 2 && in_object() && keys_[0] == "model" && (keys_[1] == "vocab" || keys_[1] == "merges");
  }

  bool begin(json empty) {
    if (list_depth_ > 0) {
      if (list_depth_++ == 1) {
        record(-1);
        merge_.clear();
        is_merge_ = empty.is_array();
        parts_ = 0;
        begin_scored();
      } else {
        is_merge_ = false;
      }
      return true;
    }
    const bool list = begins_long_list();
    in_vocabulary_ = list && empty.is_object() && keys_[1] == "vocab";
    in_merges_ = list && empty.is_array() && keys_[1] == "merges";
    in_scored_ = list && empty.is_array() && keys_[1] == "vocab";
    json* const added = add(std::move(empty));
    if (list) {
      list_depth_ = 1;
    } else {
      open_.push_back(added);
      keys_.emplace_back();
    }
    return true;
  }

  bool end() {
    if (list_depth_ > 0) {
      if (--list_depth_ == 1) record_merge(is_merge_ && parts_ == 2 ? std::move(merge_) : std::string());
    } else {
      open_.pop_back();
      keys_.pop_back();
    }
    return true;
  }

  bool value(json given) {
    if (list_depth_ == 0) {
      add(std::move(given));
    } else if (list_depth_ == 1) {
      if (in_merges_) record_merge(given.is_string() ? given.get<std::string>() : std::string());
      begin_scored();  // of no list
      const bool number = given.is_number_integer() && given >= 0 && given <= std::numeric_limits<std::int32_t>::max();
      record(number ? given.get<std::int64_t>() : -1);
    } else if (list_depth_ == 2 && in_merges_) {  // a pair
      const std::string* const part = given.get_ptr<const std::string*>();
      is_merge_ = is_merge_ && part != nullptr && part->find(' ') == std::string::npos;
      if (is_merge_) merge_ += (parts_++ == 0 ? "" : " ") + *part;
    } else if (list_depth_ == 2 && in_scored_ && !document_.scored.empty()) {
      add_to_scored(given);
    }
    return true;
  }

  void record_merge(std::string merge) {
    if (!in_merges_) return;
    if (document_.merges.size() == max_entries) {
      document_.too_many_entries = true;
    } else {
      document_.merges.push_back(std::move(merge));
    }
  }

  void begin_scored() {
    if (!in_scored_) return;
    if (document_.scored.size() == max_entries) {
      document_.too_many_entries = true;
    } else {
      document_.scored.emplace_back();
    }
  }

  /// The text, then the score, of the piece that was begun.
  void add_to_scored(const json& given) {
    ScoredPiece& last = document_.scored.back();
    last.is_valid = false;
    const int part = parts_++;
    if (part == 0 && given.is_string()) last.piece = given.get<std::string>();
    if (part == 0 && !given.is_string()) parts_ = 2;  // no piece, whatever follows
    if (part != 1 || !given.is_number()) return;
    last.score = given.get<double>();
    last.is_valid = true;
  }

  void record(std::int64_t id) {
    if (!in_vocabulary_) return;
    if (document_.entries.size() == max_entries) {
      document_.too_many_entries = true;
    } else {
      document_.entries.push_back({std::move(piece_), id});
    }
  }

  json* add(json given) {
    if (++values_ > max_values) {
      throw Error(ExitCode::files, path_ + ": holds more values besides its vocabulary than any tokenizer.json.");
    }
    if (open_.empty()) {
      document_.json = std::move(given);
      return &document_.json;
    }
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[keys_.back()] = std::move(given));
    parent.push_back(std::move(given));
    return &parent.back();
  }

  const std::string& path_;
  TokenizerDocument& document_;
  std::vector<json*> open_;        // objects and arrays that are being read; an outer one does not grow meanwhile
  std::vector<std::string> keys_;  // the latest of each
  std::size_t values_ = 0;
  int list_depth_ = 0;  // within model.vocab or model.merges; 0: elsewhere
  bool in_vocabulary_ = false, in_merges_ = false, in_scored_ = false;
  std::string merge_;  // the pair that is being read, and its parts so far
  int parts_ = 0;
  bool is_merge_ = false;
  std::string piece_;
};

}  // namespace

namespace {

/// The document of `path`, its text between `before` and `after`.
TokenizerDocument read_document(const std::string& path, const char* before, const char* after) {
  const std::string text = before + core::read_text_file(path, longest_file) + after;
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string::npos) throw Error(ExitCode::files, path + ": is not JSON: it holds a zero byte.");
  if (core::nests_too_deep(text, deepest)) {
    throw Error(ExitCode::files, path + ": nests deeper than any tokenizer.json.");
  }
  TokenizerDocument document;
  Builder builder(path, document);
  json::sax_parse(text, &builder);
  return document;
}

}  // namespace

TokenizerDocument read_tokenizer_document(const std::string& path) {
  TokenizerDocument document = read_document(path, "", "");
  if (!document.json.is_object()) throw Error(ExitCode::files, path + ": is not a JSON object.");
  return document;
}

std::string model_type_of(const std::string& folder) {
  try {
    const json config = core::parse_bounded_json(core::read_text_file(folder + "/config.json", core::longest_json));
    const json& type = member(config, "model_type");
    return type.is_string() ? core::printable(type.get<std::string>(), 60) : "";
  } catch (const core::Error&) {
    return "";  // what needs the file says so
  }
}

TokenizerDocument read_vocabulary_document(const std::string& path) {
  TokenizerDocument document = read_document(path, "{\"model\":{\"vocab\":", "}}");
  if (document.entries.empty()) throw Error(ExitCode::files, path + ": is not a JSON object of tokens and ids.");
  return document;
}

}  // namespace bert_hpc::tokenize
