// Reading shards, and refusing wrong ones.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "support/memory_taken.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using data::ShardReader;
using data::ShardReaderOptions;
using test::make_content;
using test::ScratchDirectory;
using test::ShardContent;
using test::write_shard;

namespace {

ShardReaderOptions options_for(const tasks::Task* task, std::vector<std::string> paths) {
  ShardReaderOptions options;
  options.paths = std::move(paths);
  options.limits.task = task;
  return options;
}

/// The message with which a reader is refused.
std::string refusal(const ShardReaderOptions& options) {
  try {
    const ShardReader reader(options);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::data);
    return error.what();
  }
  return "accepted";
}

/// Every sample of `reader` against the contents it was written from, in order.
void check_samples(ShardReader& reader, const std::vector<ShardContent>& contents) {
  std::int64_t sample = 0;
  for (const ShardContent& content : contents) {
    for (std::int64_t s = 0; s < content.sequences(); ++s, ++sample) {
      const auto begin = content.offsets[static_cast<std::size_t>(s)];
      const auto end = content.offsets[static_cast<std::size_t>(s) + 1];
      REQUIRE(reader.table().length(sample) == end - begin);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(end - begin), -1), types = ids;
      reader.read(sample, ids.data(), types.data());
      for (std::size_t p = 0; p < ids.size(); ++p) {
        const auto token = static_cast<std::size_t>(begin) + p;
        REQUIRE(ids[p] == content.input_ids[token]);
        REQUIRE(types[p] == (content.token_type_ids.empty() ? 0 : content.token_type_ids[token]));
      }
      const auto i = static_cast<std::size_t>(s), all = static_cast<std::size_t>(sample);
      if (content.task == tasks::find("classification")) REQUIRE(reader.classes()[all] == content.classes[i]);
      if (!content.values.empty()) REQUIRE(reader.values()[all] == content.values[i]);
      if (content.task == tasks::find("question_answering")) {
        for (std::size_t side = 0; side < 2; ++side) {
          REQUIRE(reader.spans()[2 * all + side] == content.spans[2 * i + side]);
          REQUIRE(reader.contexts()[2 * all + side] == content.contexts[2 * i + side]);
        }
      }
      for (std::int64_t w = content.word_offsets[i]; w < content.word_offsets[i + 1]; ++w) {
        const std::int64_t word = reader.words().offsets[all] + w - content.word_offsets[i];
        REQUIRE(reader.words().count(sample) == content.word_offsets[i + 1] - content.word_offsets[i]);
        REQUIRE(reader.word_classes()[static_cast<std::size_t>(word)] ==
                content.word_classes[static_cast<std::size_t>(w)]);
        REQUIRE(reader.words().tokens[static_cast<std::size_t>(2 * word)] ==
                content.words[static_cast<std::size_t>(2 * w)]);
      }
      if (content.task->ranks_candidates()) REQUIRE(reader.levels()[all] == content.levels[i]);
      if (content.task == tasks::find("multi_label")) {
        for (std::size_t name = 0; name < 3; ++name) {
          REQUIRE(reader.sets()[3 * all + name] == content.sets[3 * i + name]);
        }
      }
    }
  }
  CHECK(reader.samples() == sample);
}

}  // namespace

TEST_CASE("samples of several shards come back as written, from memory and through the cache") {
  for (const tasks::Task* task : tasks::all()) {
    for (const bool pairs : {false, true}) {
      ScratchDirectory directory;
      std::vector<ShardContent> contents;
      for (int f = 0; f < 4; ++f) {
        contents.push_back(make_content(task, f == 2 ? 0 : 150 + f, static_cast<std::uint64_t>(f), 20 + f, pairs));
        write_shard(directory / ("train-0000" + std::to_string(f) + ".h5"), contents.back());
      }
      ShardReaderOptions options = options_for(task, {directory / "train-*.h5"});
      ShardReader in_memory(options);
      check_samples(in_memory, contents);
      CHECK(in_memory.info().max_length == 23);
      const data::SampleLocation location = in_memory.location(150 + 151);
      CHECK_THAT(location.file, ContainsSubstring("train-00003.h5"));
      CHECK(location.sequence == 0);

      options.cache_unit = options.block = 64;
      options.read_at_once = 0;
      ShardReader later(options);
      CHECK(later.memory_bytes() >= in_memory.memory_bytes());
      check_samples(later, contents);

      options.memory_limit = 100;
      options.cache_bytes = 1500;
      ShardReader cached(options);
      CHECK(cached.memory_bytes() < in_memory.memory_bytes());
      check_samples(cached, contents);
      check_samples(cached, contents);
    }
  }
}

TEST_CASE("readers of one memory share the reading of their shards") {
  ScratchDirectory directory;
  std::vector<ShardContent> contents;
  for (int f = 0; f < 3; ++f) {
    contents.push_back(make_content(tasks::find("classification"), 150 + f, static_cast<std::uint64_t>(f), 20, true));
    write_shard(directory / ("train-0000" + std::to_string(f) + ".h5"), contents.back());
  }
  ShardReaderOptions options = options_for(tasks::find("classification"), {directory / "train-*.h5"});
  std::mutex hdf5;
  options.hdf5_mutex = &hdf5;
  options.block = 64;
  CHECK(ShardReader(options).bytes_to_share(2) == 0);  // small: read at once
  options.read_at_once = 0;
  ShardReader first(options), second(options);
  const std::int64_t alone = first.memory_bytes(), bytes = first.bytes_to_share(2);
  REQUIRE(bytes > 0);
  REQUIRE(second.bytes_to_share(2) == bytes);
  const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  first.share(*memory, 2, 0, memory);
  second.share(*memory, 2, 1, memory);
  CHECK(first.memory_bytes() == alone - bytes + bytes / 2);
  first.start_reading();
  second.start_reading();
  check_samples(second, contents);
  check_samples(first, contents);
}

TEST_CASE("no damaged byte of a shard that is read block by block goes unnoticed") {
  const auto compression = GENERATE(data::Compression::none, data::Compression::gzip);
  ScratchDirectory directory;
  const ShardContent content = make_content(tasks::find("classification"), 150, 1, 20);
  const std::string path = directory / "train-00000.h5";
  write_shard(directory / "a.h5", content);
  {
    ShardReader source(options_for(tasks::find("classification"), {directory / "a.h5"}));
    data::ShardInfo info = source.info();
    info.labelled = true;
    data::ShardWriter writer(path, info, false, compression);
    std::vector<std::int32_t> ids(20), types(20);
    for (std::int64_t s = 0; s < source.samples(); ++s) {
      source.read(s, ids.data(), types.data());
      writer.add(std::span(ids).first(static_cast<std::size_t>(source.table().length(s))), {},
                 {.number = source.classes()[static_cast<std::size_t>(s)]}, 1000 + s);
    }
    writer.finish();
  }
  ShardReaderOptions options = options_for(tasks::find("classification"), {path});
  options.read_at_once = 0;
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  int refused = 0, unread = 0;
  for (std::size_t at = 512; at < bytes.size(); at += 41) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(path, std::ios::binary) << damaged;
    INFO("byte " << at);
    try {
      ShardReader reader(options);
      std::vector<std::int32_t> ids(20), types(20);
      for (std::int64_t s = 0; s < reader.samples(); ++s) reader.read(s, ids.data(), types.data());
      check_samples(reader, {content});  // what no reader looks at: unused space, source rows
      ++unread;
    } catch (const core::Error& error) {
      CHECK(error.code() == core::ExitCode::data);
      CHECK_THAT(error.what(), ContainsSubstring("train-00000.h5"));
      ++refused;
    }
  }
  INFO(refused << " refused, " << unread << " not read");
  CHECK(refused > 50);
}

TEST_CASE("ids take 16 bits in files and in memory where the vocabulary allows") {
  const auto compression = GENERATE(data::Compression::none, data::Compression::gzip);
  const std::int64_t vocabulary = GENERATE(65536, 65537);
  const auto last = static_cast<std::int32_t>(vocabulary) - 1;
  ScratchDirectory directory;
  const std::string path = directory / "train-00000.h5";
  write_shard(directory / "a.h5", make_content(tasks::find("classification"), 4, 1, 20));
  {
    data::ShardInfo info = ShardReader(options_for(tasks::find("classification"), {directory / "a.h5"})).info();
    info.labelled = true;
    info.vocabulary_size = vocabulary;
    data::ShardWriter writer(path, info, false, compression);
    writer.add(std::vector<std::int32_t>{2, last, 300, 3}, {}, {}, 0);
    writer.add(std::vector<std::int32_t>{2, 65535, 3}, {}, {}, 1);
    if (vocabulary == 65536) CHECK_THROWS_AS(writer.add(std::vector<std::int32_t>{2, 65536}, {}, {}, 2), core::Error);
    writer.finish();
  }
  const bool wide = vocabulary > 65536;
  CHECK(io::Hdf5File::open_read(path, core::ExitCode::data).info("/input_ids").element_bytes == (wide ? 4 : 2));
  const std::int64_t memory_limit = GENERATE(0, 1 << 20);  // a cache, a store
  ShardReaderOptions options = options_for(tasks::find("classification"), {path});
  options.limits.vocabulary_size = 0;
  options.memory_limit = memory_limit;
  ShardReader reader(options);
  std::int32_t ids[4], types[4];
  reader.read(1, ids, types);
  CHECK((ids[0] == 2 && ids[1] == 65535 && ids[2] == 3));
  reader.read(0, ids, types);
  CHECK((ids[0] == 2 && ids[1] == last && ids[2] == 300 && ids[3] == 3));
}

TEST_CASE("a shard that is replaced while the cache still needs it is refused by name") {
  const ShardContent before = make_content(tasks::find("classification"), 150, 1, 20);
  // Of the same sequences, lengths and labels: only the tokens are others.
  ShardContent after = before;
  for (std::int32_t& id : after.input_ids) id = id >= 5 ? 5 + (id + 1) % 995 : id;
  for (const bool in_place : {false, true}) {
    for (const bool open_before : {false, true}) {
      INFO(in_place << open_before);
      ScratchDirectory directory;
      const std::string path = directory / "train-00000.h5", other = directory / "other.h5";
      write_shard(path, before);
      write_shard(other, after);
      ShardReaderOptions options = options_for(tasks::find("classification"), {path});
      options.memory_limit = 100;
      options.cache_unit = 64;
      options.cache_bytes = 1500;
      ShardReader reader(options);
      std::vector<std::int32_t> ids(20), types(20);
      if (open_before) reader.read(0, ids.data(), types.data());
      if (in_place) {
        std::filesystem::copy_file(other, path, std::filesystem::copy_options::overwrite_existing);
      } else {
        std::filesystem::rename(other, path);
      }
      std::string message;
      try {
        check_samples(reader, {before});
      } catch (const core::Error& error) {
        CHECK(error.code() == core::ExitCode::data);
        message = error.what();
      }
      // An open file keeps its old content when another file is renamed over it.
      if (open_before && !in_place) {
        CHECK(message.empty());
      } else {
        CHECK_THAT(message, ContainsSubstring("train-00000.h5"));
        if (!open_before) CHECK_THAT(message, ContainsSubstring("replaced after the run began"));
      }
    }
  }
}

TEST_CASE("masked language modelling reads shards of any task; source rows on demand") {
  ScratchDirectory directory;
  write_shard(directory / "a.h5", make_content(tasks::find("classification"), 5, 1));
  ShardReaderOptions options = options_for(tasks::find("masked_lm"), {directory / "a.h5"});
  options.source_index = true;
  const ShardReader reader(options);
  CHECK(reader.classes().empty());
  CHECK(reader.source_index()[4] == 1004);
}

TEST_CASE("files that are no shards are refused, all at once") {
  ScratchDirectory directory;
  write_shard(directory / "good.h5", make_content(tasks::find("classification"), 10, 1));
  const auto size = std::filesystem::file_size(directory / "good.h5");
  std::filesystem::copy(directory / "good.h5", directory / "short.h5");
  std::filesystem::resize_file(directory / "short.h5", size - 100);
  std::ofstream(directory / "foreign.h5") << "label,text\n1,hello\n" << std::string(2000, 'x');
  std::ofstream(directory / "empty.h5").close();
  const std::string message = refusal(
      options_for(tasks::find("classification"),
                  {directory / "good.h5", directory / "short.h5", directory / "foreign.h5", directory / "empty.h5",
                   directory / "missing.h5", directory / "none-*.h5", directory.path.string()}));
  for (const char* name : {"short.h5", "foreign.h5", "empty.h5", "missing.h5", "none-*.h5"}) {
    CHECK_THAT(message, ContainsSubstring(name));
  }
  CHECK_THAT(message, ContainsSubstring("data.train") && ContainsSubstring("6. "));
  CHECK_THAT(message, !ContainsSubstring("good.h5"));
  CHECK_THAT(refusal(options_for(tasks::find("classification"), {})), ContainsSubstring("No shard"));
}

TEST_CASE("every single flipped byte is noticed") {
  ScratchDirectory directory;
  write_shard(directory / "a.h5", make_content(tasks::find("classification"), 40, 1));
  std::ifstream in(directory / "a.h5", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  // The user block is padded with zeros, which the checksum does not cover; everything after it is covered.
  for (std::size_t at = 512; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    std::ofstream(directory / "b.h5", std::ios::binary) << bad;
    CHECK_THAT(refusal(options_for(tasks::find("classification"), {directory / "b.h5"})), ContainsSubstring("b.h5"));
  }
}

TEST_CASE("shards that do not belong together, or to the model, are refused") {
  ScratchDirectory directory;
  const ShardContent good = make_content(tasks::find("classification"), 10, 1);
  write_shard(directory / "a.h5", good);
  const auto with = [&](const std::function<void(ShardContent&)>& change) {
    ShardContent other = good;
    change(other);
    write_shard(directory / "b.h5", other);
    return refusal(options_for(tasks::find("classification"), {directory / "a.h5", directory / "b.h5"}));
  };
  CHECK_THAT(with([](auto& c) { c.vocabulary_hash = "beef"; }),
             ContainsSubstring("b.h5") && ContainsSubstring("hash beef"));
  CHECK_THAT(with([](auto& c) { c.vocabulary_size = 1001; }), ContainsSubstring("1001 pieces"));
  CHECK_THAT(with([](auto& c) { c.label_names = R"(["a", "c", "b"])"; }), ContainsSubstring("label names"));
  CHECK_THAT(with([](auto& c) { c.tokenizer = R"({"cls_id": 1})"; }), ContainsSubstring("special tokens"));
  const auto read_as = [](const char* text) {
    return R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0)" + std::string(text) + "}";
  };
  CHECK(with([&](auto& c) { c.tokenizer = read_as(R"(, "lowercase": false)"); }) ==
        "accepted");  // a.h5 does not state it
  write_shard(directory / "a.h5", [&] {
    ShardContent stated = good;
    stated.tokenizer = read_as(R"(, "lowercase": true, "tokenize_chinese_chars": true)");
    return stated;
  }());
  CHECK_THAT(
      with([&](auto& c) { c.tokenizer = read_as(R"(, "lowercase": false)"); }),
      ContainsSubstring("was prepared with lowercase = false") && ContainsSubstring("a.h5' with lowercase = true"));
  CHECK_THAT(with([&](auto& c) { c.tokenizer = read_as(R"(, "lowercase": true, "strip_accents": false)"); }),
             ContainsSubstring("with strip_accents = false") && ContainsSubstring("with strip_accents = true"));
  CHECK(with([&](auto& c) { c.tokenizer = read_as(""); }) == "accepted");
  write_shard(directory / "a.h5", good);
  CHECK_THAT(with([](auto& c) { c.schema = "bert_hpc shard 1"; }),
             ContainsSubstring("bert_hpc shard 1") &&
                 ContainsSubstring("Prepare the text again with this version's bert_hpc_prep"));
  CHECK_THAT(
      with([](auto& c) { c.tokenizer = R"({"type": "x", "cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})"; }),
      ContainsSubstring("kind of tokenizer"));
  CHECK_THAT(with([](auto& c) { c.tokenizer = R"({"mask_id": 1000})"; }), ContainsSubstring("special id 1000"));

  ShardReaderOptions options = options_for(tasks::find("regression"), {directory / "a.h5"});
  CHECK_THAT(refusal(options), ContainsSubstring("made for task 'classification'"));
  options = options_for(tasks::find("classification"), {directory / "a.h5"});
  options.limits.vocabulary_size = 999;
  CHECK_THAT(refusal(options), ContainsSubstring("vocab_size is 999"));
  options.limits.vocabulary_size = 1000;
  options.limits.max_length = good.max_length - 1;
  CHECK_THAT(refusal(options), ContainsSubstring("max_position_embeddings is " + std::to_string(good.max_length - 1)) &&
                                   ContainsSubstring("source row 10"));
  write_shard(directory / "none.h5", make_content(tasks::find("classification"), 0, 1));
  CHECK_THAT(refusal(options_for(tasks::find("classification"), {directory / "none.h5"})),
             ContainsSubstring("no sample"));
}

TEST_CASE("datasets and attributes that are missing or of another kind are refused by name") {
  ScratchDirectory directory;
  const ShardContent good = make_content(tasks::find("classification"), 10, 1);
  ShardReaderOptions options = options_for(tasks::find("classification"), {directory / "b.h5"});
  options.source_index = true;  // else it is not looked at
  namespace set = data::shard_dataset;
  for (const char* name : {set::input_ids, set::offsets, set::labels, set::source_index}) {
    write_shard(directory / "b.h5", good, {name});
    CHECK_THAT(refusal(options), ContainsSubstring("b.h5") && ContainsSubstring(name));
    // Of another type, then of another rank and length.
    write_shard(directory / "b.h5", good, {name},
                [&](io::Hdf5File& file) { file.write(name, std::vector<double>(10)); });
    CHECK_THAT(refusal(options), ContainsSubstring(name) && ContainsSubstring("float64"));
    const bool wide = std::string(name) == set::offsets || std::string(name) == set::source_index;
    for (const auto& extents : {std::vector<std::int64_t>{4, 3}, std::vector<std::int64_t>{12}}) {
      write_shard(directory / "b.h5", good, {name}, [&](io::Hdf5File& file) {
        if (wide) file.write(name, std::vector<std::int64_t>(12), extents);
        if (!wide) file.write(name, std::vector<std::int32_t>(12), extents);
      });
      CHECK_THAT(refusal(options), ContainsSubstring(name) && ContainsSubstring("shape"));
    }
  }
  for (const char* name : {"schema", "task", "vocabulary_hash", "vocabulary_size", "label_names", "tokenizer",
                           "sequences", "tokens", "max_length"}) {
    write_shard(directory / "b.h5", good, {name});
    CHECK_THAT(refusal(options), ContainsSubstring("b.h5") && ContainsSubstring(name));
    write_shard(directory / "b.h5", good, {name}, [&](io::Hdf5File& file) {
      file.write_attribute("/", name, std::vector<double>{1.5, 2});
    });
    CHECK_THAT(refusal(options), ContainsSubstring("b.h5") && ContainsSubstring(name));
  }
  for (const char* name : {"sequences", "tokens", "max_length", "vocabulary_size"}) {
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{7}, std::numeric_limits<std::int64_t>::max()}) {
      if (std::string(name) == "vocabulary_size" && value == 7) continue;
      write_shard(directory / "b.h5", good, {}, [&](io::Hdf5File& file) { file.write_attribute("/", name, value); });
      CHECK(refusal(options) != "accepted");
    }
  }
}

TEST_CASE("sets that do not have a column for each label name are refused") {
  ScratchDirectory directory;
  const tasks::Task* const task = tasks::find("multi_label");
  const ShardContent good = make_content(task, 10, 1);
  const ShardReaderOptions options = options_for(task, {directory / "b.h5"});
  const auto labels = [&](const std::vector<std::int64_t>& extents) {
    write_shard(directory / "b.h5", good, {"/labels"},
                [&](io::Hdf5File& file) { file.write("/labels", std::vector<std::uint8_t>(20), extents); });
    return refusal(options);
  };
  CHECK_THAT(labels({20}), ContainsSubstring("has shape (20); the attributes say (10, 3)"));
  CHECK_THAT(labels({10, 2}), ContainsSubstring("has shape (10, 2); the attributes say (10, 3)"));
  ShardContent unnamed = good;
  unnamed.label_names = "[]";
  write_shard(directory / "b.h5", unnamed);
  CHECK_THAT(refusal(options), ContainsSubstring("'label_names' names no label"));
  write_shard(directory / "b.h5", good, {"/labels"}, [&](io::Hdf5File& file) {
    file.write("/labels", std::vector<std::int32_t>(30), {10, 3});
  });
  CHECK_THAT(refusal(options), ContainsSubstring("/labels") && ContainsSubstring("int32"));
}

TEST_CASE("offsets, ids and labels out of range are refused, naming file and row") {
  ScratchDirectory directory;
  const auto with = [&](const tasks::Task* task, const std::function<void(ShardContent&)>& change,
                        bool cached = false) {
    ShardContent content = make_content(task, 10, 1, 20, true);
    change(content);
    write_shard(directory / "b.h5", content);
    ShardReaderOptions options = options_for(task, {directory / "b.h5"});
    if (cached) {
      options.memory_limit = 0;
      options.cache_unit = 16;
    }
    if (!cached) return refusal(options);
    ShardReader reader(options);
    std::vector<std::int32_t> ids(100), types(100);
    try {
      for (std::int64_t s = 0; s < reader.samples(); ++s) reader.read(s, ids.data(), types.data());
    } catch (const core::Error& error) {
      CHECK(error.code() == core::ExitCode::data);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const tasks::Task *const classes = tasks::find("classification"), *const values = tasks::find("regression");
  const auto check_row3 = [](const std::string& message, const std::string& what = "") {
    CHECK_THAT(message, ContainsSubstring("b.h5") && ContainsSubstring("sequence 3 (source row 1003)") &&
                            ContainsSubstring(what));
  };
  check_row3(with(classes, [](auto& c) { c.offsets[4] = c.offsets[3]; }));
  check_row3(with(classes, [](auto& c) { c.offsets[4] = c.offsets[3] - 1; }));
  check_row3(with(classes, [](auto& c) { c.offsets[4] = std::int64_t{1} << 62; }));
  check_row3(with(classes, [](auto& c) { c.offsets[4] = std::numeric_limits<std::int64_t>::min(); }));
  CHECK_THAT(with(classes, [](auto& c) { c.offsets[0] = 1; }), ContainsSubstring("from 1 to"));
  CHECK_THAT(with(classes, [](auto& c) { --c.offsets.back(); }), ContainsSubstring("number of tokens"));
  CHECK_THAT(with(classes, [](auto& c) { ++c.max_length; }), ContainsSubstring("max_length"));
  check_row3(with(classes, [](auto& c) { c.classes[3] = 3; }), "label 3");
  check_row3(with(classes, [](auto& c) { c.classes[3] = -1; }), "between 0 and 2");
  check_row3(with(values, [](auto& c) { c.values[3] = std::nanf(""); }), "no label");
  check_row3(with(values, [](auto& c) { c.values[3] = INFINITY; }), "infinite");
  check_row3(with(tasks::find("multi_label"), [](auto& c) { c.sets[3 * 3 + 1] = 2; }), "has 2 for label name 1");
  for (const bool cached : {false, true}) {
    for (const std::int32_t id : {1000, -1, std::numeric_limits<std::int32_t>::min()}) {
      check_row3(with(
                     classes, [&](auto& c) { c.input_ids[static_cast<std::size_t>(c.offsets[3]) + 1] = id; }, cached),
                 "token 1 has id " + std::to_string(id));
    }
    check_row3(with(
                   classes, [&](auto& c) { c.token_type_ids[static_cast<std::size_t>(c.offsets[3]) + 2] = 2; }, cached),
               "type 2");
    CHECK(with(
              classes, [](auto&) {}, cached) == "accepted");
  }
}

TEST_CASE("a shard that is named twice would count twice") {
  const ScratchDirectory directory;
  const auto content = make_content(tasks::find("classification"), 4, 1);
  write_shard(directory / "train-00000.h5", content);
  write_shard(directory / "train-00001.h5", content);
  data::ShardReaderOptions options;
  options.paths = {directory / "train-00001.h5", directory / "train-*.h5"};
  CHECK_THROWS_WITH(data::ShardReader(options),
                    ContainsSubstring("data.train names '" + (directory / "train-00001.h5") + "' twice") &&
                        ContainsSubstring("List every shard once"));
  options.paths = {directory / "train-*.h5"};  // equal content, but two files
  CHECK(data::ShardReader(options).samples() == 8);
}

TEST_CASE("shards that are repeated are as many shards, path by path") {
  const ScratchDirectory directory;
  write_shard(directory / "a-0.h5", make_content(tasks::find("classification"), 4, 1));
  write_shard(directory / "a-1.h5", make_content(tasks::find("classification"), 3, 2));
  write_shard(directory / "b-0.h5", make_content(tasks::find("classification"), 5, 3));
  data::ShardReaderOptions options;
  options.paths = {directory / "a-*.h5", directory / "b-*.h5"};
  const data::ShardReader once(options);
  options.repeats = {3, 2};
  data::ShardReader reader(options);
  CHECK(reader.samples() == 3 * 7 + 2 * 5);
  CHECK(reader.tokens_of_path(0) == 3 * once.tokens_of_path(0));
  CHECK(reader.tokens_of_path(1) == 2 * once.tokens_of_path(1));
  CHECK(reader.info().tokens == reader.tokens_of_path(0) + reader.tokens_of_path(1));
  std::vector<std::string> names;
  for (const std::string& file : reader.files()) names.push_back(std::filesystem::path(file).filename().string());
  CHECK(names ==
        std::vector<std::string>{"a-0.h5", "a-1.h5", "a-0.h5", "a-1.h5", "a-0.h5", "a-1.h5", "b-0.h5", "b-0.h5"});
  for (std::int64_t sample = 0; sample < 7; ++sample) {
    CHECK(reader.table().lengths()[static_cast<std::size_t>(sample)] ==
          reader.table().lengths()[static_cast<std::size_t>(14 + sample)]);
    CHECK(reader.classes()[static_cast<std::size_t>(sample)] == reader.classes()[static_cast<std::size_t>(7 + sample)]);
  }
  CHECK(reader.location(8).file == reader.location(1).file);
  CHECK(reader.location(8).sequence == 1);
}

TEST_CASE("a shard that claims many sequences and has none takes no memory for them") {
  const ScratchDirectory scratch;
  const std::string path = scratch / "a.h5";
  {
    constexpr std::size_t sequences = std::size_t{1} << 21;  // 16 MiB of offsets, which compress well
    ShardContent content;
    content.task = tasks::find("masked_lm");
    content.label_names = "[]";
    content.offsets.assign(sequences + 1, 0);
    content.offsets.back() = sequences;
    content.source_index.assign(sequences, 0);
    content.input_ids.assign(sequences, 5);
    content.max_length = 1;
    write_shard(path, content);
  }
  const ShardReaderOptions options = options_for(tasks::find("masked_lm"), {path});
  CHECK(test::memory_taken([&] { ShardReader reader(options); }) < std::int64_t{10} << 20);
  CHECK_THAT(refusal(options), ContainsSubstring("runs from token 0 to 0"));
}
