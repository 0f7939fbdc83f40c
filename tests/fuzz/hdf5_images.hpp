// Small HDF5 files of the kinds that are read, as our own programs write them and in the format before 1.8, and what
// makes hostile ones of them: bytes, numbers and addresses inside of the file changed, blocks copied, ends cut off.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "bert_hpc/data/shard_writer.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "fuzz.hpp"

namespace fuzz {

struct Image {
  std::string file, kind;  ///< its name in a folder, and the kind in its seal
  std::string bytes;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline void write_shard(const std::string& path) {
  namespace data = bert_hpc::data;
  data::ShardInfo info;
  info.vocabulary_hash = "0123456789abcdef";
  info.vocabulary_size = 20;
  info.label_names = {"a", "b", "c"};
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  info.labelled = true;
  info.sequences = 5;  // so that chunks are no larger than what is in them, and a changed image is searched in no time
  info.tokens = 23;
  data::ShardWriter writer(path, info, true);
  for (std::int32_t s = 0; s < 5; ++s) {
    const std::vector<std::int32_t> ids = {2, 5 + s, 6, 7 + s, 3};
    const std::vector<std::uint8_t> types = {0, 0, 0, 1, 1};
    writer.add({ids.data(), 5 - static_cast<std::size_t>(s) % 2}, {types.data(), 5 - static_cast<std::size_t>(s) % 2},
               {.number = s % 3}, s);
  }
  writer.finish();
}

/// A checkpoint of one rank: the content of manifest.h5 and rank-00000.h5.
inline void write_checkpoint(const std::string& folder) {
  namespace io = bert_hpc::io;
  io::CheckpointManifest manifest;
  manifest.id = "0123";
  manifest.step = 7;
  manifest.tensors = {{"first", {2, 3}}, {"second", {4}}};
  manifest.files = {{0, {{0, 0, 6, 1, 0}, {1, 0, 4, 1, 0}}}};
  for (io::CheckpointManifest::File& file : manifest.files) {
    for (auto& piece : file.pieces) piece.stride = piece.length;
  }
  manifest.integers = {{"epoch", 1}};
  manifest.reals = {{"loss", 0.5}};
  manifest.texts = {{"input", "a = 1"}};
  std::mutex hdf5;
  const std::atomic<bool> cancelled = false;
  const std::vector<float> numbers(10, 1.5f);
  std::vector<io::Quantity> payload;
  manifest.quantities = {{io::parameters_name}, {"adam_m"}, {"adam_v"}};
  for (const io::QuantityKind& quantity : manifest.quantities) payload.push_back({quantity.name, numbers});
  io::write_checkpoint_file(folder, 0, manifest.id, manifest.step, payload, hdf5, cancelled);
  io::write_manifest(folder, manifest, hdf5);
}

/// Calls `copy(name)` for each link of a group, or each attribute of an object.
template <class Copy>
void for_each_name(bool attributes, hid_t object, Copy copy) {
  std::vector<std::string> names;
  const auto link = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    return static_cast<std::vector<std::string>*>(out)->emplace_back(name), 0;
  };
  const auto attribute = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    return static_cast<std::vector<std::string>*>(out)->emplace_back(name), 0;
  };
  hsize_t begin = 0;
  const herr_t done = attributes ? H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &begin, attribute, &names)
                                 : H5Literate(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, link, &names);
  require(done >= 0, "a file of ours can be listed");
  for (const std::string& name : names) copy(name.c_str());
}

inline void copy_attributes(hid_t from, hid_t to) {
  for_each_name(true, from, [&](const char* name) {
    const hid_t source = H5Aopen(from, name, H5P_DEFAULT);
    const hid_t type = H5Aget_type(source), space = H5Aget_space(source);
    std::vector<char> values(H5Tget_size(type) * static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    H5Aread(source, type, values.data());
    const hid_t target = H5Acreate2(to, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    require(H5Awrite(target, type, values.data()) >= 0, "an attribute of ours can be copied");
    for (const hid_t id : {source, target}) H5Aclose(id);
  });
}

/// Copies all to another file, whose format may be another; `packed`: in chunks, shuffled and compressed.
inline void copy_group(hid_t from, hid_t to, bool packed) {
  copy_attributes(from, to);
  for_each_name(false, from, [&](const char* name) {
    const hid_t source = H5Oopen(from, name, H5P_DEFAULT);
    if (H5Iget_type(source) == H5I_GROUP) {
      const hid_t group = H5Gcreate2(to, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      copy_group(source, group, packed);
      H5Gclose(group);
    } else {
      std::array<hsize_t, H5S_MAX_RANK> extents{};
      const hid_t type = H5Dget_type(source), from_space = H5Dget_space(source),
                  creation = H5Pcreate(H5P_DATASET_CREATE);
      const int rank = H5Sget_simple_extent_dims(from_space, extents.data(), nullptr);
      const auto elements = static_cast<std::size_t>(H5Sget_simple_extent_npoints(from_space));
      const hid_t space = H5Screate_simple(rank, extents.data(), nullptr);
      if (packed && H5Tget_class(type) != H5T_STRING) {
        extents[0] = std::min<hsize_t>(extents[0], 3);
        H5Pset_chunk(creation, rank, extents.data());
        H5Pset_shuffle(creation);
        H5Pset_deflate(creation, 6);
      }
      std::vector<char> values(H5Tget_size(type) * elements);
      H5Dread(source, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      const hid_t target = H5Dcreate2(to, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
      require(H5Dwrite(target, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "data of ours can be copied");
      H5Dclose(target);
    }
    H5Oclose(source);
  });
}

/// The same file in the oldest format that holds it: other headers, trees and heaps, and no checksums.
inline std::string in_old_format(const std::string& path, bool packed) {
  const std::string copy = path + ".old";
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  H5Pset_userblock(creation, bert_hpc::io::seal_bytes);
  const hid_t from = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t to = H5Fcreate(copy.c_str(), H5F_ACC_TRUNC, creation, access);
  copy_group(from, to, packed);
  require(H5Fclose(from) >= 0 && H5Fclose(to) >= 0, "a file of ours can be copied");
  std::string bytes = bytes_of(copy);
  require(std::remove(copy.c_str()) == 0, "a copy can be removed");
  return bytes;
}

/// All of them; leaves the checkpoint in the folder.
inline std::vector<Image> make_images(const std::string& folder) {
  write_shard(folder + "/shard.h5");
  write_checkpoint(folder);
  std::vector<Image> images;
  for (const auto& [file, kind] :
       {std::pair{"shard.h5", "shard"}, {"manifest.h5", "checkpoint-manifest"}, {"rank-00000.h5", "checkpoint"}}) {
    const std::string path = folder + '/' + file;
    images.push_back({file, kind, bytes_of(path)});
    images.push_back({file, kind, in_old_format(path, false)});
    if (std::strcmp(file, "rank-00000.h5") != 0) images.push_back({file, kind, in_old_format(path, true)});
  }
  return images;
}

/// Offsets of HDF5's own blocks, found by their signatures. Like the file's addresses they count from the seal's end.
inline std::vector<std::uint64_t> blocks_of(const std::string& image) {
  std::vector<std::uint64_t> offsets;
  for (std::size_t i = bert_hpc::io::seal_bytes; i + 4 <= image.size(); ++i) {
    for (const char* name : {"OHDR", "OCHK", "TREE", "SNOD", "HEAP", "GCOL", "FRHP", "FHDB", "FHIB", "BTHD", "BTLF",
                             "BTIN", "EAHD", "EAIB", "EADB", "FAHD", "FADB", "FSHD"}) {
      if (image.compare(i, 4, name) == 0) offsets.push_back(i - bert_hpc::io::seal_bytes);
    }
  }
  return offsets;
}

/// Makes one change after the seal.
template <class Random>
void change(std::string& image, Random& random) {
  constexpr std::size_t begin = bert_hpc::io::seal_bytes;
  const auto below = [&](std::size_t count) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(1, count));
  };
  const std::size_t offset = begin + below(image.size() - begin - 8);
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t width) {
    std::memcpy(image.data() + at, &value, width);
  };
  constexpr std::uint64_t odd[] = {
      0,          1,          2,           0x7F,        0x80,         0xFF,          0x7FFF,
      0xFFFF,     0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu, 1ull << 32,   1ull << 40,    (1ull << 62) + 1,
      1ull << 63, ~0ull >> 1, ~0ull,       ~0ull - 1,   ~0ull - 4095, 0x1000000000u, 0x100};
  switch (below(10)) {
    case 0:
      image[offset] = static_cast<char>(image[offset] ^ (1 << below(8)));
      break;
    case 1:
    case 2:
      image[offset] = static_cast<char>(random());
      break;
    case 3:
      image[offset] = static_cast<char>(image[offset] + (random() % 2 == 0 ? 1 : -1) * static_cast<int>(1 + below(4)));
      break;
    case 4:
    case 5:
      put(offset, odd[below(std::size(odd))], std::size_t{1} << below(4));
      break;
    case 6: {  // a number that may be an address becomes that of another block
      const std::vector<std::uint64_t> blocks = blocks_of(image);
      for (std::size_t at = offset; at + 8 <= image.size() && !blocks.empty(); ++at) {
        std::uint64_t value = 0;
        std::memcpy(&value, image.data() + at, 8);
        if (value < 8 || value >= image.size()) continue;
        put(at, blocks[below(blocks.size())], 8);
        break;
      }
      break;
    }
    case 7: {
      const std::size_t length = std::min(1 + below(64), image.size() - offset);
      const std::string block = image.substr(begin + below(image.size() - begin - length), length);
      image.replace(offset, length, block);
      break;
    }
    case 8: {  // within a block's first bytes: kind, version, flags, sizes
      const std::vector<std::uint64_t> blocks = blocks_of(image);
      const std::size_t at = blocks.empty() ? offset : begin + blocks[below(blocks.size())] + 4 + below(44);
      if (at + 8 <= image.size()) put(at, odd[below(std::size(odd))] + below(3), std::size_t{1} << below(4));
      break;
    }
    default:
      if (below(8) == 0) image.resize(std::max(begin + 16, offset));
      image.back() = static_cast<char>(random());
  }
}

}  // namespace fuzz
