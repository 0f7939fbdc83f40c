// TensorBoard's event files: the encoding against bytes that were worked out by hand from the formats' definitions, and
// what lies in RUN/tensorboard after stops, damage and errors, read back by a reader that knows nothing of the encoder.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>

#include "../src/io/event_file.hpp"
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "event_reader.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::test::Curves;
using bert_hpc::test::curves_of;
using bert_hpc::test::masked;
using bert_hpc::test::number_at;
using bert_hpc::test::payloads;
using bert_hpc::test::Point;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;
using detail::crc32c;
using detail::encode_beginning;
using detail::encode_event;
using detail::encode_record;

namespace fs = std::filesystem;

namespace {

/// The one file with curves there; of those before at most one is left, empty.
std::string event_path(const TemporaryDirectory& directory) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(events_path(directory.path()))) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  REQUIRE((found.size() == 1 || found.size() == 2));
  if (found.size() == 2) REQUIRE(fs::file_size(found[0]) == 0);
  return found.back();
}

Curves curves_in(const TemporaryDirectory& directory) {
  return curves_of(bert_hpc::test::file_bytes(event_path(directory)));
}

std::vector<std::int64_t> steps_of(const Curves& curves, const std::string& tag) {
  std::vector<std::int64_t> steps;
  const auto found = curves.find(tag);
  if (found == curves.end()) return steps;
  for (const Point& point : found->second) steps.push_back(point.step);
  return steps;
}

StepRow step_row(std::int64_t step) {
  return {step, 0.1 * static_cast<double>(step), 1.0 / static_cast<double>(step), 1e-3, 0.5, 64, 1100, 0.25};
}

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("CRC-32C gives RFC 3720's examples") {
  // Appendix B.4; its bytes are in the order of transmission, least significant first.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i), falling += static_cast<char>(31 - i);
  CHECK(crc32c(rising) == 0x46dd794eu);
  CHECK(crc32c(falling) == 0x113fdb5cu);
  const unsigned char command[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                     0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                     0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
  CHECK(crc32c({reinterpret_cast<const char*>(command), sizeof command}) == 0xd9963a56u);
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283u);
}

TEST_CASE("a record is its length, its payload and their checksums") {
  const std::string record = encode_record("abc");
  REQUIRE(record.size() == 8 + 4 + 3 + 4);
  CHECK(number_at<std::uint64_t>(record, 0) == 3);
  CHECK(number_at<std::uint32_t>(record, 8) == masked(crc32c(record.substr(0, 8))));
  CHECK(record.substr(12, 3) == "abc");
  CHECK(number_at<std::uint32_t>(record, 15) == masked(crc32c("abc")));
  CHECK(payloads(record + record + record.substr(0, 17)).size() == 2);
}

TEST_CASE("events are the messages that TensorBoard's definitions say") {
  using namespace std::string_literals;
  // wall_time 1.5 (field 1, 64 bits), step 300 (field 2, varint), summary (field 5) of a value (field 1) with tag "a/b"
  // and simple_value 0.25 (32 bits).
  const std::string expected =
      "\x09\0\0\0\0\0\0\xf8\x3f"s
      "\x10\xac\x02"s
      "\x2a\x0c\x0a\x0a"s
      "\x0a\x03"s
      "a/b"s
      "\x15\0\0\x80\x3e"s;
  CHECK(payloads(encode_event(1.5, 300, {{"a/b", 0.25}})) == std::vector<std::string>{expected});
  const std::vector<std::string> beginning = payloads(encode_beginning(1.5));
  REQUIRE(beginning.size() == 2);
  CHECK(beginning[0] == "\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"s + "brain.Event:2");
  CHECK(beginning[1] == "\x09\0\0\0\0\0\0\xf8\x3f\x3a\x02\x08\x01"s);
  // Lengths of two bytes, a large step, and values that float cannot hold.
  const double infinity = std::numeric_limits<double>::infinity();
  const Curves curves = curves_of(encode_event(
      1e9, std::int64_t{1} << 40, {{std::string(200, 'x'), 1e300}, {"low", -1e300}, {"nan", std::nan("")}}));
  CHECK(curves.at(std::string(200, 'x'))[0].step == std::int64_t{1} << 40);
  CHECK(curves.at(std::string(200, 'x'))[0].value == infinity);
  CHECK(curves.at("low")[0].value == -infinity);
  CHECK(std::isnan(curves.at("nan")[0].value));
}

TEST_CASE("every row is a point of its curves, and metrics.h5 brings the event file along") {
  const TemporaryDirectory directory;
  const double before = static_cast<double>(std::time(nullptr));
  MetricsWriter writer(directory.path(), {}, {.interval = 5, .resume_step = -1, .events = true});
  const std::string first = bert_hpc::test::file_bytes(event_path(directory));
  CHECK(payloads(first).size() == 2);
  writer.record_step(step_row(10));
  writer.record_loss_scale({10, 32768, 1});
  writer.record_evaluation("validation", {10, 0.7, {{"accuracy", 0.5}, {"f1", 0.25}}, 2, {1, 2, 3, 4}});
  CHECK(bert_hpc::test::file_bytes(event_path(directory)) == first);  // no writing with every row
  writer.snapshot();
  const std::string second = bert_hpc::test::file_bytes(event_path(directory));
  CHECK(second.substr(0, first.size()) == first);
  const Curves curves = curves_of(second);
  const std::map<std::string, float> expected = {{"train/loss", 0.1f},
                                                 {"train/learning_rate", 1e-3f},
                                                 {"train/gradient_norm", 0.5f},
                                                 {"train/samples_per_second", 256.0f},
                                                 {"train/tokens_per_second", 4400.0f},
                                                 {"train/loss_scale", 32768.0f},
                                                 {"validation/loss", 0.7f},
                                                 {"validation/accuracy", 0.5f},
                                                 {"validation/f1", 0.25f}};
  CHECK(curves.size() == expected.size());
  for (const auto& [tag, value] : expected) {
    INFO(tag);
    REQUIRE(curves.contains(tag));
    REQUIRE(curves.at(tag).size() == 1);
    CHECK(curves.at(tag)[0].step == 10);
    CHECK(curves.at(tag)[0].value == value);
    CHECK(curves.at(tag)[0].time >= before);
    CHECK(curves.at(tag)[0].time < before + 600);
  }
  writer.record_step(step_row(20));
  writer.record_evaluation("test", {10, 0.8, {}, 0, {}});
  writer.close();
  const std::string third = bert_hpc::test::file_bytes(event_path(directory));
  CHECK(third.substr(0, second.size()) == second);
  CHECK(steps_of(curves_of(third), "train/loss") == Steps{10, 20});
  CHECK(steps_of(curves_of(third), "test/loss") == Steps{10});
}

TEST_CASE("a run without the option for event files writes none") {
  const TemporaryDirectory directory;
  MetricsWriter(directory.path(), {}).record_step(step_row(1));
  CHECK_FALSE(fs::exists(events_path(directory.path())));
}

TEST_CASE("a resumed run has each step once, with the time of its recording") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), {}, {.interval = 5, .resume_step = -1, .events = true});
    for (std::int64_t step = 1; step <= 5; ++step) writer.record_step(step_row(step));
    for (const std::int64_t step : {2, 4}) writer.record_evaluation("validation", {step, 0.5, {}, 0, {}});
    writer.snapshot();
  }
  const std::string path = event_path(directory), whole = bert_hpc::test::file_bytes(path);
  const Curves before = curves_of(whole);
  const std::string other = events_path(directory.path()) + "/of_another_program";
  bert_hpc::test::write_bytes(other, "x");
  // Whole; torn within the last records; of rows that the kill has kept from it; gone.
  for (const std::size_t kept : {whole.size(), whole.size() - 1, whole.size() - 60, std::size_t{20}, std::size_t{0}}) {
    INFO("kept " << kept);
    const std::string there = event_path(directory);
    bert_hpc::test::write_bytes(there, whole.substr(0, kept));
    if (kept == 0) fs::remove(there);
    MetricsWriter writer(directory.path(), {}, {.interval = 5, .resume_step = 4, .events = true});
    CHECK((kept == 0 || event_path(directory) > there));  // so that a running TensorBoard reads it next
    CHECK(steps_of(curves_in(directory), "train/loss") == Steps{1, 2, 3, 4});
    writer.record_step(step_row(5));
    writer.record_step(step_row(6));
    // Done again, as one that was due at the checkpoint is.
    writer.record_evaluation("validation", {4, 0.25, {}, 0, {}});
    writer.close();
    const Curves curves = curves_in(directory);
    CHECK(steps_of(curves, "train/loss") == Steps{1, 2, 3, 4, 5, 6});
    CHECK(steps_of(curves, "validation/loss") == Steps{2, 4});
    CHECK(curves.at("validation/loss")[1].value == 0.25f);
    CHECK(curves.at("train/loss")[3].time == before.at("train/loss")[3].time);
  }
  CHECK(bert_hpc::test::file_bytes(other) == "x");
}

TEST_CASE("event files begun late, or after a journal of an older version, have all rows") {
  const TemporaryDirectory directory;
  MetricsWriter(directory.path(), {}).record_step(step_row(1));
  {
    Journal journal = Journal::resume(metrics_journal_path(directory.path()));
    journal.append("step\t2\t0\t0.5\t0\t0\t1\t1\t1\t0");  // without a time
    journal.append("evaluation\tvalidation\t2\t0.75\t0\t0\t0");
    journal.append("loss_scale\t2\t1024\t0");
  }
  const MetricsWriter writer(directory.path(), {}, {.interval = 5, .resume_step = 2, .events = true});
  CHECK(writer.warnings().empty());
  const Curves curves = curves_in(directory);
  CHECK(steps_of(curves, "train/loss") == Steps{1, 2});
  CHECK(curves.at("train/loss")[1].time >= curves.at("train/loss")[0].time);  // of the file's making
  CHECK(steps_of(curves, "validation/loss") == Steps{2});
  CHECK(curves.at("train/loss_scale")[0].value == 1024.0f);
}

TEST_CASE("event files are never written through a link") {
  const TemporaryDirectory directory, elsewhere;
  const std::string theirs = elsewhere / "events.out.tfevents.1700000000.bert_hpc";
  bert_hpc::test::write_bytes(theirs, "theirs");
  fs::create_directory_symlink(elsewhere.path(), events_path(directory.path()));
  {
    MetricsWriter writer(directory.path(), {}, {.interval = 5, .resume_step = -1, .events = true});
    writer.record_step(step_row(1));
  }
  CHECK_FALSE(fs::is_symlink(events_path(directory.path())));
  CHECK(steps_of(curves_in(directory), "train/loss") == Steps{1});
  CHECK(bert_hpc::test::file_bytes(theirs) == "theirs");
  CHECK(std::distance(fs::directory_iterator(elsewhere.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a failure to create event files is an error with the cause") {
  const TemporaryDirectory directory;
  const std::string folder = events_path(directory.path());
  fs::create_directories(folder + "/events.out.tfevents.0000000005.bert_hpc/not_ours");
  CHECK_THROWS_WITH((MetricsWriter(directory.path(), {}, {.interval = 5, .resume_step = -1, .events = true})),
                    ContainsSubstring("Cannot begin event files in '" + folder + "': Directory not empty."));
}
