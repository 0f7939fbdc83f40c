#include "id_text.hpp"

#include <charconv>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {
namespace {

class IdReader : public tokenize::TextEncoder {
 public:
  explicit IdReader(std::int64_t size) : size_(size) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
      std::int32_t id = -1;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc{} || id < 0 || id >= size_) refuse({at, static_cast<std::size_t>(end - at)});
      ids.push_back(id);
      at = next != end ? next + 1 : end;
    }
  }
  void encode_with_spans(std::string_view, std::vector<std::int32_t>&, std::vector<tokenize::TokenSpan>&) override {
    throw core::Error(core::ExitCode::internal, "tokens have no characters");
  }
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override { encode(word, ids); }

 private:
  [[noreturn]] void refuse(std::string_view rest) const {
    throw core::Error(core::ExitCode::data,
                      "the source has the token \"" + core::printable(rest.substr(0, rest.find(' ')), 20) +
                          "\", but ids of [tokenizer] vocabulary go from 0 to " + std::to_string(size_ - 1) +
                          ": name the vocabulary that the source was made with.");
  }

  std::int64_t size_;
};

}  // namespace

std::unique_ptr<tokenize::TextEncoder> id_reader(std::int64_t size) {
  return std::make_unique<IdReader>(size);
}

}  // namespace bert_hpc::prep
