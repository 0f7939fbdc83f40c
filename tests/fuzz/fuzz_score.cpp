// The scorers' files. The first byte chooses the scorer; the bytes up to the first 0xFE are GOLD, the others
// PREDICTIONS. A result is finite, and its JSON can be read.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bert_hpc/score/scorer.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto& all = score::scorers();
  const score::Scorer& scorer = all[data[0] % all.size()];
  const std::string_view both = fuzz::text(data + 1, size - 1);
  const std::size_t end = both.find('\xFE');
  const fuzz::File gold(both.substr(0, end));
  const fuzz::File predictions(end == both.npos ? std::string_view() : both.substr(end + 1));
  fuzz::accepts([&] {
    const score::Result result = scorer.score({gold.path(), predictions.path()});
    fuzz::require(!result.numbers.empty(), "a result has numbers");
    for (const score::Number& number : result.numbers) fuzz::require(std::isfinite(number.value), "numbers are finite");
    const auto read = nlohmann::json::parse(score::json_text(result), nullptr, false);
    fuzz::require(read.is_object() && !read.empty(), "a result is a JSON object");
  });
  return 0;
}
