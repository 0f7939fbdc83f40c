#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/tensor_piece.hpp"

using namespace bert_hpc::core;

namespace {

// A model of a tensor shared out by rows, one by columns, one that all have, and a copy; as rank `t` of `ranks` has it.
std::vector<ParameterSpec> specs(int t, int ranks) {
  const std::int64_t rows = 12 / ranks, columns = 8 / ranks;
  return {{.name = "rows", .shape = {rows, 5}, .shard = {0, t * rows, 12}},
          {.name = "columns", .shape = {7, columns}, .shard = {1, t * columns, 8}},
          {.name = "whole", .shape = {11}},
          {.name = "decoder", .shape = {rows, 5}, .copy_of = "rows", .shard = {0, t * rows, 12}}};
}

const std::vector<WholeTensor> tensors = {{"columns", {7, 8}}, {"rows", {12, 5}}, {"whole", {11}}};

/// Indices of a piece's elements in the whole, in order.
std::vector<std::int64_t> indices(const TensorPiece& piece) {
  std::vector<std::int64_t> all;
  for (std::int64_t r = 0; r < piece.count; ++r) {
    for (std::int64_t i = 0; i < piece.length; ++i) all.push_back(piece.first + r * piece.stride + i);
  }
  return all;
}

std::vector<ArenaRange> share(std::int64_t arena, int part, int parts) {
  const std::int64_t begin = arena * part / parts, end = arena * (part + 1) / parts;
  return {{begin, (end - begin) / 2}, {begin + (end - begin) / 2, end - begin - (end - begin) / 2}};
}

}  // namespace

TEST_CASE("a part of a slice by columns is a rest, whole runs and a begin") {
  const ParameterSlice slice{.name = "columns", .shape = {7, 4}, .offset = 100, .size = 28, .shard = {1, 4, 8}};
  const std::vector<ArenaPiece> pieces = pieces_of(slice, 3, 2, 23);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].piece == TensorPiece{3, 6, 2, 1, 2});
  CHECK(pieces[1].piece == TensorPiece{3, 12, 4, 4, 8});
  CHECK(pieces[2].piece == TensorPiece{3, 44, 3, 1, 3});
  CHECK(pieces[0].arena == 102);
  CHECK(pieces[1].arena == 104);
  CHECK(pieces[2].arena == 120);
  const std::vector<ArenaPiece> inside = pieces_of(slice, 3, 5, 7);
  REQUIRE(inside.size() == 1);
  CHECK(inside[0].piece == TensorPiece{3, 13, 2, 1, 2});
}

TEST_CASE("all ranks together save every element of the whole model once") {
  for (const int ranks : {1, 2, 4}) {
    for (const int replicas : {1, 2, 3}) {
      std::vector<std::vector<int>> seen;
      for (const WholeTensor& tensor : tensors) seen.emplace_back(static_cast<std::size_t>(tensor.elements()), 0);
      for (int t = 0; t < ranks; ++t) {
        const ParameterStore store(specs(t, ranks), ParameterStore::Arenas::none, {.slice = 1, .arena = 1});
        for (int d = 0; d < replicas; ++d) {
          const auto ranges = share(store.arena_size(), d, replicas);
          for (const ArenaPiece& stored : pieces_to_save(store.slices(), tensors, ranges, t, ranks)) {
            for (const std::int64_t i : indices(stored.piece)) ++seen[static_cast<std::size_t>(stored.piece.tensor)][i];
          }
        }
      }
      INFO(ranks << " tensor ranks, " << replicas << " replicas");
      for (const std::vector<int>& counts : seen) CHECK(counts == std::vector<int>(counts.size(), 1));
    }
  }
}

TEST_CASE("another layout loads the tensors that one layout has saved") {
  // Every element's value is made of its tensor's number and its index there.
  const auto value = [](std::int64_t tensor, std::int64_t index) { return tensor * 1000 + index; };
  const int ranks = 2;
  for (int t = 0; t < ranks; ++t) {
    const ParameterStore store(specs(t, ranks), ParameterStore::Arenas::none, {.slice = 1, .arena = 1});
    std::vector<std::int64_t> arena(static_cast<std::size_t>(store.arena_size()), -1);
    const std::vector<ArenaRange> all = {{0, store.arena_size()}};
    for (const WantedPart& part : parts_to_load(store.slices(), tensors, all)) {
      CHECK(part.first < part.last);
      CHECK(part.last <= tensors[static_cast<std::size_t>(part.tensor)].elements());
      for (const ArenaPiece& stored : part.pieces) {
        std::int64_t at = stored.arena;
        for (const std::int64_t i : indices(stored.piece)) {
          CHECK(i >= part.first);
          CHECK(i < part.last);
          arena[static_cast<std::size_t>(at++)] = value(part.tensor, i);
        }
      }
    }
    for (const ParameterSlice& slice : store.slices()) {
      const std::int64_t tensor = slice.name == "columns" ? 0 : slice.name == "whole" ? 2 : 1;
      const ShardRuns runs = runs_of(slice.shape, slice.shard);
      for (std::int64_t i = 0; i < slice.size; ++i) {
        const std::int64_t index = runs.first + i / runs.length * runs.stride + i % runs.length;
        CHECK(arena[static_cast<std::size_t>(slice.offset + i)] == value(tensor, index));
      }
    }
  }
}

TEST_CASE("pieces cover a tensor once if counting says so") {
  // Tensors of up to 6 rows of up to 6, cut as layouts cut them: into columns, and those into runs of elements; then
  // perhaps one piece is moved, stretched, repeated or left out. Of these pieces elements are counted.
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int covered = 0, others = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t rows = pick(1, 6), columns = pick(1, 6), elements = rows * columns;
    std::vector<TensorPiece> pieces;
    for (std::int64_t left = 0; left < columns;) {
      const std::int64_t width = pick(1, columns - left);
      const std::int64_t top = pick(0, rows - 1);  // above it row by row, below it in one piece
      for (std::int64_t r = 0; r < top; ++r) pieces.push_back({0, r * columns + left, width, 1, width});
      const bool alone = rows - top == 1;
      pieces.push_back({0, top * columns + left, width, rows - top, alone ? width : columns});
      left += width;
    }
    if (pick(0, 1) == 1) {
      const auto number = pick(0, static_cast<std::int64_t>(pieces.size()) - 1);
      TensorPiece& piece = pieces[static_cast<std::size_t>(number)];
      const std::int64_t change = pick(0, 4);
      if (change == 0) piece.first = pick(0, elements - 1);
      if (change == 1) piece.length = pick(1, piece.stride);
      if (change == 2) piece.count = pick(1, rows);
      if (change == 3) pieces.push_back(TensorPiece(piece));
      if (change == 4) pieces.erase(pieces.begin() + number);
    }
    std::vector<int> times(static_cast<std::size_t>(elements));
    bool inside = true, one_row = true;
    for (const TensorPiece& piece : pieces) {
      for (const std::int64_t index : indices(piece)) {
        inside = inside && index < elements;
        if (inside) ++times[static_cast<std::size_t>(index)];
      }
      one_row = one_row && (piece.count == 1 || piece.stride == columns);
    }
    if (!inside || !one_row) continue;  // cover_once() does not promise a result for these
    const bool once = std::all_of(times.begin(), times.end(), [](int count) { return count == 1; });
    INFO("round " << round << ", " << rows << " x " << columns);
    REQUIRE(cover_once(elements, pieces) == once);
    ++(once ? covered : others);
  }
  CHECK(covered > 5000);
  CHECK(others > 5000);
  CHECK_FALSE(cover_once(12, std::vector<TensorPiece>{{0, 0, 1, 6, 2}, {0, 1, 1, 3, 4}, {0, 3, 1, 3, 4}}));  // two rows
}

TEST_CASE("a slice that the model does not have is a defect") {
  const ParameterStore store(specs(0, 1), ParameterStore::Arenas::none);
  const std::vector<ArenaRange> all = {{0, store.arena_size()}};
  const std::vector<WholeTensor> few = {{"columns", {7, 8}}, {"rows", {12, 5}}};
  CHECK_THROWS_AS(pieces_to_save(store.slices(), few, all, 0, 1), Error);
  const std::vector<WholeTensor> other = {{"columns", {7, 8}}, {"rows", {12, 6}}, {"whole", {11}}};
  CHECK_THROWS_AS(parts_to_load(store.slices(), other, all), Error);
}
