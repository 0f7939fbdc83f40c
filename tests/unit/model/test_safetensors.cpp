// Safetensors reader and writer: types, hostile headers, truncation at every byte, and random mutations.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <csignal>
#include <random>

#include "bert_hpc/model/safetensors.hpp"
#include "files.hpp"
#include "support/safetensors_file.hpp"

using namespace bert_hpc;
using model::SafetensorsFile;
using test::bytes_of;
using test::failure_of;
using test::safetensors_bytes;

namespace {

const std::string good_header =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"F32","shape":[3],"data_offsets":[16,28]}})";

std::string good_file() {
  return safetensors_bytes(good_header, bytes_of<float>({1, 2, 3, 4, 5, 6, 7}));
}

test::Failure open_failure(const test::ScratchFolder& folder, const std::string& bytes) {
  test::write_file(folder / "x.safetensors", bytes);
  return failure_of([&folder] { SafetensorsFile file(folder / "x.safetensors"); });
}

std::vector<float> read_all(const SafetensorsFile& file, const std::string& name) {
  const model::StoredTensor* tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor->elements));
  file.read(*tensor, std::span<float>(values));
  return values;
}

}  // namespace

TEST_CASE("a file's tensors, shapes and metadata are read") {
  test::ScratchFolder folder;
  test::write_file(folder / "x.safetensors", good_file());
  const SafetensorsFile file(folder / "x.safetensors");
  CHECK(file.metadata().at("format") == "pt");
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.find("a")->shape == std::vector<std::int64_t>{2, 2});
  CHECK(read_all(file, "a") == std::vector<float>{1, 2, 3, 4});
  CHECK(read_all(file, "b") == std::vector<float>{5, 6, 7});
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("half and bfloat widen exactly, for every bit pattern") {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  const std::string data = bytes_of(patterns);
  test::ScratchFolder folder;
  for (const std::string dtype : {"F16", "BF16"}) {
    test::write_file(
        folder / "x.safetensors",
        safetensors_bytes(R"({"t":{"dtype":")" + dtype + R"(","shape":[65536],"data_offsets":[0,131072]}})", data));
    const std::vector<float> values = read_all(SafetensorsFile(folder / "x.safetensors"), "t");
    const int mantissa_bits = dtype == "F16" ? 10 : 7, bias = dtype == "F16" ? 15 : 127;
    const int largest_exponent = dtype == "F16" ? 31 : 255;
    for (int i = 0; i < 65536; ++i) {
      const int exponent = (i & 0x7FFF) >> mantissa_bits, mantissa = i & ((1 << mantissa_bits) - 1);
      const float value = values[static_cast<std::size_t>(i)];
      if (exponent == largest_exponent) {
        if (mantissa != 0 ? !std::isnan(value) : !std::isinf(value)) FAIL("pattern " << i << " of " << dtype);
        continue;
      }
      // The definition: (implicit one + mantissa / 2^bits) * 2^(exponent - bias), subnormals without the one.
      const double fraction = std::ldexp(mantissa, -mantissa_bits) + (exponent > 0 ? 1 : 0);
      const double magnitude = std::ldexp(fraction, std::max(exponent, 1) - bias);
      const double expected = i >= 32768 ? -magnitude : magnitude;
      if (value != expected || std::signbit(value) != (i >= 32768)) FAIL("pattern " << i << " of " << dtype);
    }
  }
}

TEST_CASE("double and integer tensors are read as such and refused as weights") {
  const std::string header = R"({"d":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                             R"("i":{"dtype":"I32","shape":[2],"data_offsets":[16,24]}})";
  test::ScratchFolder folder;
  test::write_file(folder / "x.safetensors",
                   safetensors_bytes(header, bytes_of<double>({0.1, -2}) + bytes_of<std::int32_t>({-7, 9})));
  const SafetensorsFile file(folder / "x.safetensors");
  std::vector<double> doubles(2);
  file.read(*file.find("d"), std::span<double>(doubles));
  CHECK(doubles == std::vector<double>{0.1, -2});
  std::vector<std::int64_t> integers(2);
  file.read(*file.find("i"), std::span<std::int64_t>(integers));
  CHECK(integers == std::vector<std::int64_t>{-7, 9});
  std::vector<float> floats(2);
  const auto failure = failure_of([&] { file.read(*file.find("d"), std::span<float>(floats)); });
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("\"d\""));
  CHECK(failure.says("F32, F16 or BF16"));
}

TEST_CASE("headers with false claims are refused with the tensor's name") {
  test::ScratchFolder folder;
  const std::string data = bytes_of<float>({1, 2, 3, 4});
  struct Case {
    std::string header, says;
  };
  const std::string many = std::string(200, '[') + std::string(200, ']');
  const std::vector<Case> cases = {
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,20]}})", "beyond the file"},
      {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})", "does not fit"},
      {R"({"t":{"dtype":"F64","shape":[4],"data_offsets":[0,16]}})", "does not fit"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})", "backwards"},
      {R"({"t":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", "non-negative integers"},
      {R"({"t":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}})", "non-negative integers"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}})", "non-negative integers"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]}})", "non-negative integers"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0]}})", "two non-negative integers"},
      {R"({"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}})", "does not fit"},
      {R"({"t":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,16]}})", "does not fit"},
      {R"({"t":{"dtype":7,"shape":[4],"data_offsets":[0,16]}})", "dtype"},
      {R"({"t":{"shape":[4],"data_offsets":[0,16]}})", "dtype"},
      {R"({"t":[1]})", "object"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
       "overlap"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"u":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
       "gap"},
      {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "belong to no tensor"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "twice"},
      {R"({"t":{"dtype":"F32","shape":[4],"shape":[4],"data_offsets":[0,16]}})", "twice"},
      {R"({"__metadata__":{"format":1}})", "strings"},
      {R"({"t":)" + many + "}", "nested deeper"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})", "not valid JSON"},
      {"{}garbage", "not valid JSON"},
      {"[1, 2]", "not a safetensors file"},
  };
  for (const Case& one : cases) {
    const auto failure = open_failure(folder, safetensors_bytes(one.header, data));
    INFO(one.header << "\n" << failure.message);
    CHECK(failure.code == test::files_code);
    CHECK(failure.says(one.says));
    CHECK(failure.says("x.safetensors"));
  }
}

TEST_CASE("a header of very many tensors takes no longer than its length asks for") {
  // Work that grew with the square of their number took hours: the time limit of all tests is what fails then.
  test::ScratchFolder folder;
  constexpr int count = 200000;
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    header.append(i > 0 ? ",\"t" : "\"t").append(std::to_string(i));
    header.append(R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
  }
  header += '}';
  const std::uint64_t length = header.size();
  test::write_file(folder / "many.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header);
  const model::SafetensorsFile file(folder / "many.safetensors");
  CHECK(file.tensors().size() == count);
  for (int i = 0; i < count; ++i) REQUIRE(file.find(std::string("t").append(std::to_string(i))) != nullptr);
}

TEST_CASE("errors distinguish foreign, empty and missing files") {
  test::ScratchFolder folder;
  CHECK(open_failure(folder, "").says("empty or truncated"));
  CHECK(open_failure(folder, "PK\x03\x04 some other format altogether").says("not a safetensors file"));
  CHECK(open_failure(folder, safetensors_bytes(std::string(100, '{'), "").substr(0, 50)).says("truncated"));
  CHECK(failure_of([&] { SafetensorsFile file(folder / "none"); }).says("No such file"));
  CHECK(failure_of([&] { SafetensorsFile file(folder.path()); }).says("not a regular file"));
  const auto ugly = open_failure(folder, safetensors_bytes("{\"\\u001b[2J\":{}}", ""));
  CHECK(ugly.says("\\x1b[2J"));  // no byte of the file reaches the terminal unescaped
}

TEST_CASE("a file truncated at any byte is refused") {
  test::ScratchFolder folder;
  const std::string whole = good_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto failure = open_failure(folder, whole.substr(0, size));
    if (failure.code != test::files_code) FAIL("accepted when cut to " << size << " bytes");
  }
}

TEST_CASE("a file shortened after it was opened is an error, not a crash") {
  test::ScratchFolder folder;
  test::write_file(folder / "x.safetensors", good_file());
  const SafetensorsFile file(folder / "x.safetensors");
  std::filesystem::resize_file(folder / "x.safetensors", good_file().size() - 4);
  std::vector<float> values(3);
  CHECK(failure_of([&] { file.read(*file.find("b"), std::span<float>(values)); }).says("shortened"));
}

TEST_CASE("mutated files are refused or read within bounds, never anything else") {
  test::ScratchFolder folder;
  std::mt19937 random(20240517);
  const std::string whole = good_file();
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  int refused = 0;
  constexpr int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = whole;
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t position = below(std::min<std::size_t>(bytes.size(), 8 + good_header.size()));
      switch (below(4)) {
        case 0:
          bytes[position] = static_cast<char>(bytes[position] ^ (1 << below(8)));
          break;
        case 1:
          bytes[position] = static_cast<char>("0123456789{}[],:\"-"[below(18)]);
          break;
        case 2:
          bytes.erase(position, 1 + below(4));
          break;
        default:
          bytes.insert(position, bytes.substr(below(bytes.size()), below(12)));
          break;
      }
    }
    test::write_file(folder / "x.safetensors", bytes);
    const auto failure = failure_of([&] {
      const SafetensorsFile file(folder / "x.safetensors");
      for (const model::StoredTensor& tensor : file.tensors()) {
        REQUIRE(tensor.end <= static_cast<std::int64_t>(bytes.size()));
        std::vector<float> values(static_cast<std::size_t>(tensor.elements));
        if (tensor.dtype == "F32") file.read(tensor, std::span<float>(values));
      }
    });
    if (failure.code == test::files_code) ++refused;
    if (failure.code != -1 && failure.code != test::files_code) FAIL("round " << round << ": " << failure.message);
  }
  CHECK(refused > rounds / 2);  // some changes are harmless: a tensor's name, a digit inside the metadata
}

TEST_CASE("the same tensors give the same bytes in any order, and come back bit for bit") {
  test::ScratchFolder folder;
  std::vector<float> a(6), b(1);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::bit_cast<float>(static_cast<std::uint32_t>(0x3F7FFFF0u + i));
  b[0] = -0.0f;
  const model::TensorToWrite first{"z.weight", {2, 3}, a}, second{"a.bias", {1}, b}, empty{"none", {0}, {}};
  test::write_safetensors(folder / "1.safetensors", {first, second, empty}, {{"format", "pt"}});
  test::write_safetensors(folder / "2.safetensors", {empty, second, first}, {{"format", "pt"}});
  const bool same = test::read_file(folder / "1.safetensors") == test::read_file(folder / "2.safetensors");
  CHECK(same);
  const SafetensorsFile file(folder / "1.safetensors");
  const std::vector<float> read = read_all(file, "z.weight");
  CHECK(std::memcmp(read.data(), a.data(), sizeof(float) * a.size()) == 0);
  CHECK(std::signbit(read_all(file, "a.bias")[0]));
  CHECK(file.find("none")->elements == 0);
  CHECK(file.tensors()[0].begin % 8 == 0);
  CHECK(!std::filesystem::exists(folder / "1.safetensors.partial"));
}

TEST_CASE("a failed write leaves the earlier file and no rest") {
  test::ScratchFolder folder;
  std::vector<float> values{1};
  test::write_file(folder / "x.safetensors", "earlier");
  std::filesystem::create_directory(folder / "x.safetensors.partial");
  const auto failure = failure_of([&] { test::write_safetensors(folder / "x.safetensors", {{"a", {1}, values}}, {}); });
  CHECK(failure.code == test::files_code);
  CHECK(failure.says("cannot be created"));
  CHECK(test::read_file(folder / "x.safetensors") == "earlier");
  // A limit on the size of files stands for a full disk.
  std::filesystem::remove(folder / "x.safetensors.partial");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{16, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto full = failure_of([&] { test::write_safetensors(folder / "x.safetensors", {{"a", {1}, values}}, {}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(full.code == test::files_code);
  CHECK(full.says("File too large"));
  CHECK(test::read_file(folder / "x.safetensors") == "earlier");
  CHECK(!std::filesystem::exists(folder / "x.safetensors.partial"));
}
