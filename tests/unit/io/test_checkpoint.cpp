#include <hdf5.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>
#include <random>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::TensorPiece;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

namespace fs = std::filesystem;

namespace {

/// A matrix of 6 × 8 shared out by columns over two files, a vector of 10 in the second.
CheckpointManifest example() {
  CheckpointManifest manifest;
  manifest.id = "run 7";
  manifest.step = 100;
  manifest.tensors = {{"matrix", {6, 8}}, {"vector", {10}}};
  manifest.files = {{0, {{0, 0, 4, 6, 8}}}, {3, {{0, 4, 4, 6, 8}, {1, 0, 3, 1, 3}, {1, 3, 7, 1, 7}}}};
  manifest.integers = {{"epoch", 3}, {"big", std::int64_t{1} << 60}};
  manifest.reals = {{"loss", 0.1}};
  manifest.texts = {{"input", "[run]\nseed = 1\n"}, {"empty", ""}};
  manifest.quantities = {{"parameters"}, {"signs"}, {"scales"}};
  return manifest;
}

const std::string history = "123456789";
constexpr std::uint32_t history_checksum = 0xcbf43926;  // the CRC's published check value

float value(int quantity, std::int64_t tensor, std::int64_t index) {
  return static_cast<float>(quantity * 10000 + tensor * 1000 + index);
}

void write_example(const std::string& folder, const CheckpointManifest& manifest) {
  std::mutex hdf5;
  for (const CheckpointManifest::File& file : manifest.files) {
    std::vector<float> numbers[3];
    std::vector<Quantity> payload;
    for (int q = 0; q < 3; ++q) {
      for (const TensorPiece& piece : file.pieces) {
        for (std::int64_t r = 0; manifest.holds(static_cast<std::size_t>(q), piece.tensor) && r < piece.count; ++r) {
          for (std::int64_t i = 0; i < piece.length; ++i) {
            numbers[q].push_back(value(q, piece.tensor, piece.first + r * piece.stride + i));
          }
        }
      }
      payload.push_back({manifest.quantities[static_cast<std::size_t>(q)].name, numbers[q]});
    }
    write_checkpoint_file(folder, file.rank, manifest.id, manifest.step, payload, hdf5, false);
  }
  CheckpointManifest whole = manifest;
  bert_hpc::test::write_bytes(folder + '/' + history_name, history);
  put_history(whole, static_cast<std::int64_t>(history.size()), history_checksum);
  write_manifest(folder, whole, hdf5);
}

/// Reads like a resuming run: throws on any error.
void read_all(const std::string& folder) {
  std::mutex hdf5;
  const CheckpointManifest manifest = read_manifest(folder, hdf5);
  for (std::size_t f = 0; f < manifest.files.size(); ++f) verify_checkpoint_file(folder, manifest, f, hdf5);
  verify_history(folder, manifest);
  CheckpointReader reader(folder, manifest, hdf5);
  for (int q = 0; q < 3; ++q) {
    for (std::int64_t t = 0; t < 2; ++t) {
      if (!manifest.holds(static_cast<std::size_t>(q), t)) continue;
      const std::int64_t elements = manifest.tensors.at(static_cast<std::size_t>(t)).elements();
      for (std::int64_t begin = 0; begin < elements; begin += 5) {
        for (const std::int64_t size :
             {std::int64_t{1}, std::min<std::int64_t>(13, elements - begin), elements - begin}) {
          std::vector<float> out(static_cast<std::size_t>(size), -1);
          reader.read(manifest.quantities.at(static_cast<std::size_t>(q)).name, t, begin, out);
          for (std::int64_t i = 0; i < size; ++i) {
            if (out[static_cast<std::size_t>(i)] != value(q, t, begin + i)) throw std::runtime_error("a wrong value");
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a checkpoint reads back in any requested ranges") {
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = example();
  write_example(directory.path(), manifest);
  std::mutex hdf5;
  const CheckpointManifest found = read_manifest(directory.path(), hdf5);
  CHECK(found.id == manifest.id);
  CHECK(found.step == 100);
  CHECK(found.quantities == manifest.quantities);
  CHECK(found.tensors == manifest.tensors);
  REQUIRE(found.files.size() == 2);
  CHECK(found.files[1].rank == 3);
  CHECK(found.files[1].pieces == manifest.files[1].pieces);
  CHECK(found.integer("big") == std::int64_t{1} << 60);
  CHECK(found.real("loss") == 0.1);
  CHECK(found.text("input") == "[run]\nseed = 1\n");
  CHECK(found.text("empty").empty());
  CHECK(history_path("folder", found) == "folder/metrics.journal");
  CHECK_THROWS_WITH(found.real("epoch"), ContainsSubstring("lacks 'epoch'"));
  read_all(directory.path());
  // The estimate of its size is no less than the truth and near it.
  const auto bytes = static_cast<std::int64_t>(fs::file_size(directory / checkpoint_file_name(3)));
  const auto numbers = static_cast<std::int64_t>(3 * 34 * sizeof(float));
  CHECK(bytes <= numbers + checkpoint_file_overhead);
  CHECK(bytes > numbers);
}

TEST_CASE("states in blocks read back in any requested ranges, wherever their pieces begin in a block") {
  // A tensor of 5000 elements shared out over two files, in the second by columns; and a small one.
  const TemporaryDirectory directory;
  CheckpointManifest manifest;
  manifest.id = "run 8";
  manifest.tensors = {{"large", {50, 100}}, {"small", {10}}};
  manifest.files = {{0, {{0, 0, 2000, 1, 2000}}},
                    {1, {{0, 2000, 60, 30, 100}, {1, 0, 10, 1, 10}, {0, 2060, 40, 30, 100}}}};
  manifest.quantities = {{"parameters"},
                         {"m", QuantityForm::small_numbers},
                         {"m_codes", QuantityForm::codes},
                         {"m_scales", QuantityForm::scales}};
  const std::vector<std::vector<std::uint8_t>> phases = {{7}, {200, 0, 0}};
  const auto code = [](std::int64_t index) { return static_cast<std::uint8_t>(index % 251); };
  // The scale of an element is its block's, by file, piece and the block's number there.
  const auto scale = [](std::size_t file, std::size_t piece, std::int64_t block) {
    return static_cast<float>(1000 * file + 100 * piece + static_cast<std::size_t>(block));
  };
  std::vector<float> expected(5000);
  std::mutex hdf5;
  for (std::size_t f = 0; f < 2; ++f) {
    std::vector<float> parameters, small, scales;
    std::vector<std::uint8_t> codes;
    for (std::size_t p = 0; p < manifest.files[f].pieces.size(); ++p) {
      const TensorPiece& piece = manifest.files[f].pieces[p];
      std::int64_t at = phases[f][p];
      for (std::int64_t r = 0; r < piece.count; ++r) {
        for (std::int64_t i = 0; i < piece.length; ++i, ++at) {
          const std::int64_t index = piece.first + r * piece.stride + i;
          parameters.push_back(static_cast<float>(index));
          if (piece.tensor == 1) {
            small.push_back(0.5f);
            continue;
          }
          codes.push_back(code(index));
          expected[static_cast<std::size_t>(index)] = scale(f, p, at / 256);
        }
      }
      for (std::int64_t b = 0; piece.tensor == 0 && b < (at + 255) / 256; ++b) scales.push_back(scale(f, p, b));
    }
    const std::vector<Quantity> payload = {{"parameters", parameters},
                                           {"m", small},
                                           {"m_codes", {}, codes},
                                           {"m_scales", scales},
                                           {phases_name, {}, phases[f]}};
    write_checkpoint_file(directory.path(), static_cast<int>(f), manifest.id, manifest.step, payload, hdf5, false);
  }
  write_manifest(directory.path(), manifest, hdf5);
  const CheckpointManifest found = read_manifest(directory.path(), hdf5);
  CHECK(found.quantities == manifest.quantities);
  CHECK(manifest_of_message(to_message(found)).quantities == manifest.quantities);
  for (std::size_t f = 0; f < 2; ++f) CHECK_NOTHROW(verify_checkpoint_file(directory.path(), found, f, hdf5));
  CheckpointReader reader(directory.path(), found, hdf5);
  for (const auto& [first, size] : {std::pair<std::int64_t, std::size_t>{0, 5000}, {1990, 300}, {2059, 2}, {4999, 1}}) {
    std::vector<std::uint8_t> codes(size);
    std::vector<float> scales(size);
    reader.read_codes("m_codes", 0, first, codes);
    reader.read_scales("m_scales", 0, first, scales);
    for (std::size_t i = 0; i < size; ++i) {
      const std::int64_t index = first + static_cast<std::int64_t>(i);
      REQUIRE(codes[i] == code(index));
      REQUIRE(scales[i] == expected[static_cast<std::size_t>(index)]);
    }
  }
  std::vector<float> out(10);
  reader.read("m", 1, 0, out);
  CHECK(out == std::vector<float>(10, 0.5f));
  CHECK_THROWS_AS(reader.read("m", 0, 0, out), Error);  // large tensors have codes
}

TEST_CASE("frozen tensors have parameters in a checkpoint, and no states") {
  for (const std::size_t frozen : {std::size_t{0}, std::size_t{1}}) {
    const TemporaryDirectory directory;
    CheckpointManifest manifest = example();
    manifest.tensors[frozen].trainable = false;  // the matrix: the first file has no states
    write_example(directory.path(), manifest);
    CHECK_NOTHROW(read_all(directory.path()));
    std::mutex hdf5;
    const CheckpointManifest found = read_manifest(directory.path(), hdf5);
    CHECK(found.tensors == manifest.tensors);
    CHECK(manifest_of_message(to_message(found)).tensors == manifest.tensors);
    CheckpointReader reader(directory.path(), found, hdf5);
    std::vector<float> out(4);
    CHECK_THROWS_AS(reader.read("signs", static_cast<std::int64_t>(frozen), 0, out), Error);
    // Its files are not those of a training of everything.
    CheckpointManifest all = manifest;
    all.tensors[frozen].trainable = true;
    CHECK_THROWS_AS(verify_checkpoint_file(directory.path(), all, 1, hdf5), Error);
  }
  const TemporaryDirectory directory;
  write_example(directory.path(), example());
  const hid_t file = H5Fopen((directory.path() + "/manifest.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  CHECK(H5Lexists(file, "tensors/frozen", H5P_DEFAULT) == 0);  // as older versions write it
  H5Fclose(file);
}

TEST_CASE("a checkpoint of before manifests listed quantities is AdamW's") {
  const TemporaryDirectory directory;
  CheckpointManifest manifest = example();
  manifest.quantities = {{"parameters"}, {"first_moments"}, {"second_moments"}};
  write_example(directory.path(), manifest);
  const std::string path = directory / manifest_name;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(H5Ldelete(file, "quantities", H5P_DEFAULT) >= 0);
  REQUIRE(H5Fclose(file) >= 0);
  seal(path, "checkpoint-manifest");
  std::mutex hdf5;
  CHECK(read_manifest(directory.path(), hdf5).quantities == manifest.quantities);
  read_all(directory.path());
}

TEST_CASE("a manifest with false claims is refused") {
  const TemporaryDirectory directory;
  std::mutex hdf5;
  const auto refused = [&](const char* why, auto&& change) {
    CheckpointManifest manifest = example();
    change(manifest);
    write_manifest(directory.path(), manifest, hdf5);
    CHECK_THROWS_WITH(read_manifest(directory.path(), hdf5), ContainsSubstring(why));
  };
  refused("exactly once", [](CheckpointManifest& m) { m.files[0].pieces[0].count = 5; });
  refused("exactly once", [](CheckpointManifest& m) { m.files.pop_back(); });
  refused("exactly once", [](CheckpointManifest& m) { m.files[1].pieces[0].first = m.files[0].pieces[0].first; });
  refused("not inside", [](CheckpointManifest& m) { m.files[0].pieces[0].count = 7; });
  refused("not inside", [](CheckpointManifest& m) { m.files[0].pieces[0].first = -1; });
  refused("not inside", [](CheckpointManifest& m) { m.files[1].pieces[0].first = 5; });
  refused("not inside", [](CheckpointManifest& m) { m.files[1].pieces[1].length = std::int64_t{1} << 62; });
  refused("not inside", [](CheckpointManifest& m) { m.files[0].pieces[0].stride = 0; });
  refused("not in the list", [](CheckpointManifest& m) { m.files[0].pieces[0].tensor = 2; });
  refused("no shape", [](CheckpointManifest& m) { m.tensors[0].shape = {std::int64_t{1} << 40, 1 << 20}; });
  refused("no shape", [](CheckpointManifest& m) { m.tensors[1].shape = {0}; });
  refused("order of ranks", [](CheckpointManifest& m) { m.files[0].rank = 3; });
  refused("list of files", [](CheckpointManifest& m) { m.files[0].rank = -1; });
  refused("negative", [](CheckpointManifest& m) { m.step = -1; });
  refused("quantities", [](CheckpointManifest& m) { m.quantities = {{"moments"}}; });
  refused("quantities", [](CheckpointManifest& m) { m.quantities.push_back({"../other"}); });
  refused("quantities", [](CheckpointManifest& m) { m.quantities.push_back({phases_name}); });
  refused("quantities", [](CheckpointManifest& m) { m.quantities.push_back({"parameters"}); });
}

TEST_CASE("files of two checkpoints do not mix") {
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = example();
  write_example(directory.path(), manifest);
  CheckpointManifest other = manifest;
  other.id = "run 8";
  fs::create_directory(directory / "other");
  write_example(directory / "other", other);
  fs::copy_file(directory / "other/rank-00003.h5", directory / "rank-00003.h5", fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(read_all(directory.path()), ContainsSubstring("belongs to another checkpoint"));
}

TEST_CASE("damage anywhere in a checkpoint is found before its numbers are used") {
  const TemporaryDirectory directory;
  write_example(directory.path(), example());
  std::mt19937 random(11);
  for (const std::string name : {"manifest.h5", "rank-00000.h5", "rank-00003.h5", history_name}) {
    const std::string path = directory / name, bytes = bert_hpc::test::file_bytes(path);
    for (int trial = 0; trial < 200; ++trial) {
      std::string damaged = bytes;
      const std::size_t bit = random() % (8 * bytes.size());
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      bert_hpc::test::write_bytes(path, damaged);
      INFO(name << " bit " << bit);
      CHECK_THROWS_AS(read_all(directory.path()), Error);
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{100}, std::size_t{512}, bytes.size() / 2, bytes.size() - 1}) {
      if (size >= bytes.size()) continue;
      bert_hpc::test::write_bytes(path, bytes.substr(0, size));
      INFO(name << " cut to " << size);
      CHECK_THROWS_AS(read_all(directory.path()), Error);
    }
    fs::remove(path);
    CHECK_THROWS_WITH(read_all(directory.path()), ContainsSubstring("no such file"));
    bert_hpc::test::write_bytes(path, bytes);
  }
  read_all(directory.path());
}

TEST_CASE("a checkpoint that is a link, or has one, is refused; folders above it may be links") {
  const TemporaryDirectory directory;
  const std::string checkpoint = directory / "step-00000006", outside = directory / "outside";
  fs::create_directories(checkpoint);
  write_example(checkpoint, example());
  fs::create_directory_symlink(directory.path(), directory / "above");
  read_all(directory / "above/step-00000006");
  fs::create_directory_symlink(checkpoint, directory / "step-00000008");
  CHECK_THROWS_WITH(read_all(directory / "step-00000008"), ContainsSubstring("step-00000008': it is a symbolic link"));
  const CheckpointFolder folder(directory.path());
  CHECK_THROWS_WITH(folder.refuse_links(8), ContainsSubstring("step-00000008': it is a symbolic link"));
  CHECK_NOTHROW(folder.refuse_links(6));
  for (const std::string name : {"manifest.h5", "rank-00000.h5", "rank-00003.h5", history_name}) {
    const std::string path = checkpoint + '/' + name;
    fs::rename(path, outside);
    fs::create_symlink(outside, path);
    CHECK_THROWS_WITH(read_all(checkpoint), ContainsSubstring(name + "': it is a symbolic link"));
    CHECK_THROWS_WITH(folder.refuse_links(6), ContainsSubstring(name + "': it is a symbolic link"));
    fs::rename(outside, path);
  }
  read_all(checkpoint);
}

TEST_CASE("a metric history that differs from the manifest is refused; older checkpoints have none") {
  const TemporaryDirectory directory;
  write_example(directory.path(), example());
  const auto size = static_cast<std::int64_t>(history.size());
  for (const std::int64_t bytes : {size, size + 1, std::int64_t{-1}, std::int64_t{1} << 62}) {
    for (const std::uint32_t checksum : {history_checksum, history_checksum ^ 1}) {
      CheckpointManifest manifest = example();
      put_history(manifest, bytes, checksum);
      INFO(bytes << ' ' << checksum);
      if (bytes == size && checksum == history_checksum) {
        CHECK_NOTHROW(verify_history(directory.path(), manifest));
      } else {
        CHECK_THROWS_AS(verify_history(directory.path(), manifest), Error);
      }
    }
  }
  fs::remove(directory / history_name);
  CHECK(history_path(directory.path(), example()).empty());
  verify_history(directory.path(), example());
  CheckpointManifest manifest = example();
  put_history(manifest, size, history_checksum);
  fs::create_directory(directory / history_name);
  CHECK_THROWS_WITH(verify_history(directory.path(), manifest), ContainsSubstring("not a regular file"));
}

TEST_CASE("names of checkpoints are steps only") {
  CHECK(checkpoint_name(100) == "step-00000100");
  CHECK(step_of_checkpoint("step-00000100") == 100);
  CHECK(step_of_checkpoint(checkpoint_name(12345678901)) == 12345678901);
  for (const char* name : {"step-100", "step-0000010", "step-000000100", "step-", "step-0000010x", "../step-00000100",
                           "step-00000100/..", "Step-00000100", ".writing-step-00000100", "step--0000001", ""}) {
    INFO(name);
    CHECK_FALSE(step_of_checkpoint(name));
  }
}

TEST_CASE("a checkpoint bears its name once it is whole, and pointers are followed no further than names") {
  const TemporaryDirectory directory;
  const CheckpointFolder folder(directory / "run/checkpoints");
  CHECK(folder.steps().empty());
  CHECK_FALSE(folder.named("latest"));
  folder.prepare();
  for (const std::int64_t step : {300, 100, 200, 400}) {
    CHECK(folder.begin(step) == folder.staging(step));
    folder.begin(step);  // by another rank
    bert_hpc::test::write_bytes(folder.staging(step) + "/manifest.h5", std::to_string(step));
    const std::size_t before = folder.steps().size();
    folder.publish(step);
    CHECK(folder.steps().size() == before + 1);
    CHECK_FALSE(fs::exists(folder.staging(step)));
  }
  CHECK(folder.steps() == std::vector<std::int64_t>{100, 200, 300, 400});
  folder.point("latest", 400);
  folder.point("best", 100);
  CHECK(folder.named("best") == 100);
  CHECK(bert_hpc::test::file_bytes(folder.path() + "/best") == "step-00000100\n");
  folder.prune(1);
  CHECK(folder.steps() == std::vector<std::int64_t>{100, 400});
  // set_pointers() repairs the pointers after a kill between them. It never names a missing best step or a later one.
  folder.set_pointers(400, 400);
  CHECK((folder.named("best") == 400 && folder.named("latest") == 400));
  folder.set_pointers(100, std::nullopt);
  CHECK((!folder.named("best") && folder.named("latest") == 100));
  folder.set_pointers(400, 100);
  folder.set_pointers(400, 300);
  CHECK((folder.named("best") == 100 && folder.named("latest") == 400));
  folder.forget("best");
  CHECK_FALSE(folder.named("best"));
  for (const char* text : {"../../etc", "", "step-00000400/../step-00000100", "/step-00000400"}) {
    bert_hpc::test::write_bytes(folder.path() + "/best", text);
    CHECK_FALSE(folder.named("best"));
  }

  // Again; it replaces the one there is.
  bert_hpc::test::write_bytes(folder.begin(400) + "/manifest.h5", "new");
  folder.publish(400);
  CHECK(bert_hpc::test::file_bytes(folder.path_of(400) + "/manifest.h5") == "new");
  CHECK_FALSE(fs::exists(folder.path() + "/.replaced-step-00000400"));
  CHECK(folder.prune(2).empty());
  CHECK_FALSE(fs::exists(folder.path() + "/.removing-.replaced-step-00000400"));
  // Killed before the new one had the name: the old one gets it back; after that, it goes.
  fs::rename(folder.path_of(400), folder.path() + "/.replaced-step-00000400");
  folder.tidy();
  CHECK(folder.steps() == std::vector<std::int64_t>{100, 400});
  fs::copy(folder.path_of(400), folder.path() + "/.replaced-step-00000400", fs::copy_options::recursive);
  folder.tidy();
  CHECK(folder.steps() == std::vector<std::int64_t>{100, 400});
  CHECK_FALSE(fs::exists(folder.path() + "/.replaced-step-00000400"));

  CHECK(folder.set_aside(400) == "set-aside-step-00000400");
  CHECK(folder.steps() == std::vector<std::int64_t>{100});
  folder.begin(400);
  folder.publish(400);
  CHECK(folder.set_aside(400) == "set-aside-step-00000400-2");
}

TEST_CASE("only the unfinished files of a killed run are removed") {
  const TemporaryDirectory directory;
  const CheckpointFolder folder(directory.path());
  folder.begin(5);
  folder.begin(6);
  folder.publish(6);
  fs::create_directory(directory / ".removing-step-00000004");
  bert_hpc::test::write_bytes(directory / "notes.txt", "mine");
  folder.prepare();
  CHECK_FALSE(fs::exists(folder.staging(5)));
  CHECK_FALSE(fs::exists(directory / ".removing-step-00000004"));
  CHECK(fs::exists(directory / "notes.txt"));
  CHECK(folder.steps() == std::vector<std::int64_t>{6});
  folder.begin(7);
  folder.abandon(7);
  CHECK_FALSE(fs::exists(folder.staging(7)));
}

TEST_CASE("the newest of the checkpoints that were set aside are kept") {
  const TemporaryDirectory directory;
  const CheckpointFolder folder(directory.path());
  std::vector<std::string> names;
  for (const std::int64_t step : {9, 3, 9, 5}) {
    folder.begin(step);
    folder.publish(step);
    names.push_back(folder.set_aside(step));
    // Renamed within one tick of the disk's clock otherwise.
    fs::last_write_time(directory / names.back(),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - static_cast<int>(names.size())));
  }
  CHECK(names[2] == "set-aside-step-00000009-2");
  fs::create_directory(directory / "set-aside-by-hand");
  CHECK(folder.prune_set_aside(2) == std::vector<std::string>{names[0], names[1]});
  CHECK(folder.prune_set_aside(2).empty());
  CHECK((fs::exists(directory / names[2]) && fs::exists(directory / names[3])));
  CHECK(fs::exists(directory / "set-aside-by-hand"));
}

TEST_CASE("a manifest as a message is the same manifest") {
  const TemporaryDirectory directory;
  write_example(directory.path(), example());
  std::mutex hdf5;
  const CheckpointManifest manifest = read_manifest(directory.path(), hdf5);
  const std::string message = to_message(manifest);
  const CheckpointManifest received = manifest_of_message(message);
  CHECK((received.id == manifest.id && received.step == manifest.step && received.tensors == manifest.tensors));
  CHECK(
      (received.integers == manifest.integers && received.reals == manifest.reals && received.texts == manifest.texts));
  REQUIRE(received.files.size() == manifest.files.size());
  for (std::size_t f = 0; f < received.files.size(); ++f) {
    CHECK((received.files[f].rank == manifest.files[f].rank && received.files[f].pieces == manifest.files[f].pieces));
  }
  for (const std::size_t cut : {std::size_t{0}, std::size_t{7}, message.size() / 2, message.size() - 1}) {
    CHECK_THROWS_AS(manifest_of_message(message.substr(0, cut)), Error);
  }
}

TEST_CASE("too little space is reported before any file is written") {
  const TemporaryDirectory directory;
  const CheckpointFolder folder(directory / "not/yet/there");
  folder.require_space(1000);
  CHECK_THROWS_WITH(folder.require_space(std::int64_t{1} << 60), ContainsSubstring("too little space"));
}
