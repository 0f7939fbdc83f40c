// Typed values survive the way into bytes and back, and cut bytes are refused.
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "bert_hpc/core/message.hpp"

using namespace bert_hpc;

namespace {

struct Inner {
  std::string name;
  double value = 0;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.name, self.value);
  }
};

struct Outer {
  enum class Kind { one, two };
  std::int64_t count = 0;
  Kind kind = Kind::one;
  std::vector<Inner> inners;
  std::vector<std::pair<int, int>> ranges;
  std::vector<std::int32_t> numbers, none;
  std::optional<float> maybe, never;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.count, self.kind, self.inners, self.ranges, self.numbers, self.none, self.maybe, self.never);
  }
};

Outer example() {
  return {.count = -7,
          .kind = Outer::Kind::two,
          .inners = {{"tab\tline\n", 0.1}, {"", std::numeric_limits<double>::infinity()}},
          .ranges = {{1, 2}, {3, 4}},
          .numbers = {-1, 70000, 3},
          .none = {},
          .maybe = 2.5f,
          .never = {}};
}

}  // namespace

TEST_CASE("a struct with fields survives the way through a message") {
  const Outer read = core::from_message<Outer>(core::to_message(example()));
  CHECK(read.count == -7);
  CHECK(read.kind == Outer::Kind::two);
  REQUIRE(read.inners.size() == 2);
  CHECK(read.inners[0].name == "tab\tline\n");
  CHECK(read.inners[0].value == 0.1);
  CHECK(read.inners[1].name.empty());
  CHECK(read.inners[1].value == std::numeric_limits<double>::infinity());
  CHECK(read.ranges == example().ranges);
  CHECK(read.numbers == example().numbers);
  CHECK(read.none.empty());
  CHECK(read.maybe == 2.5f);
  CHECK_FALSE(read.never.has_value());
}

TEST_CASE("a message that is cut anywhere is refused") {
  const std::string whole = core::to_message(example());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_AS(core::from_message<Outer>(whole.substr(0, size)), std::runtime_error);
  }
  core::MessageReader reader(std::span(whole.data(), whole.size()));
  Outer read;
  reader.read(read);
  CHECK(reader.at_end());
}
