// Shards whose HDF5 is sound and whose content lies: attributes, types, shapes, offsets, ids and labels as the input
// says, as a bug or a foreign tool could have written them. (Bits flipped in the file itself are found by its checksum
// before HDF5 sees them.)
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <vector>

#include "bert_hpc/data/shard_file.hpp"
#include "fuzz.hpp"
#include "hdf5_memory.hpp"
#include "shard_promises.hpp"

using namespace bert_hpc;

namespace {

/// The value that belongs there, or another one.
std::int64_t perhaps(FuzzedDataProvider& input, std::int64_t right) {
  return input.ConsumeIntegralInRange(0, 7) != 0 ? right : input.ConsumeIntegral<std::int64_t>();
}

template <class T>
void write(FuzzedDataProvider& input, io::Hdf5File& file, const char* name, const std::vector<T>& values,
           const std::vector<std::int64_t>& extents = {}) {
  const io::Storage storage{
      .chunk_rows = input.ConsumeIntegralInRange(0, 1) * 64, .gzip = 0, .shuffle = false, .fletcher32 = false};
  switch (input.ConsumeIntegralInRange(0, 15)) {
    case 0:
      return;  // missing
    case 1:
      return file.write(name, std::vector<double>(values.begin(), values.end()));
    case 2:
      return file.write(name, values, {1, static_cast<std::int64_t>(values.size())});
    case 3:
      return file.write_text(name, {"text"});
    case 4:
      return file.create_group(name);
    default:
      return file.write(name, values, extents, storage);
  }
}

void build(FuzzedDataProvider& input, io::Hdf5File& file, const char* task) {
  namespace attribute = data::shard_attribute;
  namespace dataset = data::shard_dataset;
  const std::int64_t sequences = input.ConsumeIntegralInRange(0, 6);
  std::vector<std::int64_t> offsets{0}, sources;
  std::int64_t longest = 0, end = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t length = input.ConsumeIntegralInRange(1, 9);
    longest = std::max(longest, length);
    end += length;
    offsets.push_back(perhaps(input, end));
    sources.push_back(perhaps(input, s));
  }
  const std::int64_t tokens =
      input.ConsumeIntegralInRange(0, 7) != 0 ? end : input.ConsumeIntegralInRange<std::int64_t>(0, 100);
  std::vector<std::int32_t> ids, labels;
  std::vector<std::uint8_t> types;
  for (std::int64_t t = 0; t < tokens; ++t) {
    ids.push_back(static_cast<std::int32_t>(perhaps(input, t % 20)));
    types.push_back(static_cast<std::uint8_t>(perhaps(input, t % 2)));
  }
  for (std::int64_t s = 0; s < sequences; ++s) labels.push_back(static_cast<std::int32_t>(perhaps(input, s % 3)));
  std::vector<std::uint8_t> sets;  // (sequences, 3)
  for (std::int64_t i = 0; i < 3 * sequences; ++i) sets.push_back(static_cast<std::uint8_t>(perhaps(input, i % 2)));

  const auto text = [&](const char* name, const char* right) {
    const int choice = input.ConsumeIntegralInRange(0, 15);
    if (choice == 0) return;
    if (choice == 1) return file.write_attribute("/", name, input.ConsumeIntegral<std::int64_t>());
    if (choice == 2) return file.write_attribute("/", name, input.ConsumeRandomLengthString(40));
    file.write_attribute("/", name, right);
  };
  const auto number = [&](const char* name, std::int64_t right) {
    const int choice = input.ConsumeIntegralInRange(0, 15);
    if (choice == 0) return;
    if (choice == 1) return file.write_attribute("/", name, "7");
    file.write_attribute("/", name, perhaps(input, right));
  };
  text(attribute::schema, data::shard_schema);
  text(attribute::task, task);
  text(attribute::vocabulary_hash, "0123456789abcdef");
  text(attribute::label_names, R"(["a", "b", "c"])");
  text(attribute::tokenizer, R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})");
  number(attribute::vocabulary_size, 20);
  number(attribute::sequences, sequences);
  number(attribute::tokens, tokens);
  number(attribute::max_length, longest);
  write(input, file, dataset::input_ids, ids);
  write(input, file, dataset::offsets, offsets);
  if (input.ConsumeBool()) write(input, file, dataset::token_type_ids, types);
  if (tasks::find(task)->labels == tasks::Labels::words) {
    std::vector<std::int64_t> word_offsets = {perhaps(input, 0)};
    std::vector<std::int32_t> words;
    for (std::int64_t s = 0; s < sequences; ++s) {  // a word each
      words.push_back(static_cast<std::int32_t>(perhaps(input, 0)));
      words.push_back(static_cast<std::int32_t>(perhaps(input, 1)));
      word_offsets.push_back(perhaps(input, s + 1));
    }
    write(input, file, dataset::word_offsets, word_offsets);
    write(input, file, dataset::word_tokens, words, {sequences, 2});
  }
  if (tasks::find(task)->labels == tasks::Labels::sets) {
    write(input, file, dataset::labels, sets, {sequences, 3});
  } else {
    write(input, file, dataset::labels, labels);
  }
  write(input, file, dataset::source_index, sources);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider input(bytes, size);
  constexpr const char* tasks[] = {"classification", "multi_label", "token_classification"};
  const char* const task = tasks[input.ConsumeIntegralInRange(0, 2)];
  std::vector<std::byte> image;
  if (!fuzz::accepts([&] {
        io::Hdf5File file = io::Hdf5File::create_in_memory("shard", core::ExitCode::data);
        build(input, file, task);
        image = file.close_to_bytes();
      })) {
    return 0;
  }
  const fuzz::File file({reinterpret_cast<const char*>(image.data()), image.size()});
  fuzz::accepts([&] { fuzz::read_shard(file.path(), false, task); });
  return 0;
}
