// The layout of a parameter store with frozen parameters: trainable ones first, and gradients of these alone.
#include "bert_hpc/core/parameter_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using core::ParameterSpec;
using core::ParameterStore;
using Arenas = ParameterStore::Arenas;
using Names = std::vector<std::string>;

namespace {

/// Embeddings, two joined weights, their bias, a head; `frozen` of these.
std::vector<ParameterSpec> specs(const Names& frozen = {}) {
  std::vector<ParameterSpec> all = {{.name = "words", .shape = {10, 16}, .row_sparse = true, .lookup_only = true},
                                    {.name = "key", .shape = {3, 16}, .one_product = true},
                                    {.name = "value", .shape = {3, 16}, .joined = true, .one_product = true},
                                    {.name = "bias", .shape = {6}},
                                    {.name = "head", .shape = {2, 16}}};
  for (ParameterSpec& spec : all) {
    for (const std::string& name : frozen) spec.trainable = spec.trainable && spec.name != name;
  }
  return all;
}

Names names(const ParameterStore& store) {
  Names all;
  for (const core::ParameterSlice& slice : store.slices()) all.push_back(slice.name);
  return all;
}

const core::ParameterSlice& slice(const ParameterStore& store, const std::string& name) {
  return store.slices()[static_cast<std::size_t>(store.find(name))];
}

}  // namespace

TEST_CASE("with nothing frozen all elements are trainable and slices lie as they are given") {
  const ParameterStore store(specs(), Arenas::with_gradients, {.slice = 16, .arena = 64});
  CHECK(names(store) == Names{"words", "key", "value", "bias", "head"});
  CHECK(slice(store, "head").offset == 160 + 96 + 16);
  CHECK(store.arena_size() == 320);  // 304, aligned
  CHECK(store.trainable_size() == 320);
  CHECK(store.gradients().size() == 320);
  CHECK(store.trainable_parameters() == store.parameters());
  CHECK(store.products_begin() == 160);
  CHECK(store.products_end() == 320);
}

TEST_CASE("trainable slices come first in their order, then the frozen ones, those that are looked up last") {
  const ParameterStore store(specs({"words", "bias"}), Arenas::with_gradients, {.slice = 16, .arena = 64});
  CHECK(names(store) == Names{"key", "value", "head", "bias", "words"});
  CHECK(slice(store, "value").offset == 48);  // joined
  CHECK(slice(store, "head").offset == 96);
  CHECK(store.trainable_size() == 128);
  CHECK(slice(store, "bias").offset == 128);
  CHECK(slice(store, "words").offset == 144);
  CHECK(store.arena_size() == 320);  // 304, aligned
  CHECK(store.parameters() == 160 + 96 + 6 + 32);
  CHECK(store.trainable_parameters() == 96 + 32);
  CHECK(store.products_begin() == 0);
  CHECK(store.products_end() == 144);
  // Of the trainable elements alone.
  CHECK(store.gradients().size() == 128);
  CHECK(store.gradient_bytes() == 128 * 4);
  REQUIRE(store.gradient_ranges().size() == 1);
  CHECK(store.gradient_ranges()[0].end == 128);
  CHECK(store.gradient(store.find("head")).data == store.gradients().data() + 96);
  CHECK(store.gradient(store.find("bias")).data == nullptr);
  CHECK(store.gradient(store.find("words")).data == nullptr);
  CHECK(store.values().size() == 320);
}

TEST_CASE("frozen embeddings have no marks, and products begin with the arena") {
  ParameterStore::Memory marked;
  marked.zero_lines = true;
  const ParameterStore all(specs(), Arenas::with_gradients, {}, marked);
  CHECK(all.marked() == 160);
  CHECK(all.marks_of(all.find("words")) != nullptr);
  const ParameterStore few(specs({"words"}), Arenas::with_gradients, {}, marked);
  CHECK(few.marked() == 0);
  CHECK(few.marks_of(few.find("words")) == nullptr);
  CHECK(few.products_begin() == 0);
}

TEST_CASE("only the embeddings are trainable, or nothing is") {
  const ParameterStore words(specs({"key", "value", "bias", "head"}), Arenas::with_gradients);
  CHECK(words.trainable_size() == 160);
  CHECK(words.products_begin() == 160);
  CHECK(words.products_end() == words.arena_size());
  const ParameterStore none(specs({"words", "key", "value", "bias", "head"}), Arenas::with_gradients);
  CHECK(none.trainable_size() == 0);
  CHECK(none.gradients().empty());
  CHECK(none.gradient_ranges().empty());
  CHECK(none.arena_size() == 304);
}

TEST_CASE("gradients of products in 16 bits are those of trainable products") {
  ParameterStore::Memory narrow;
  narrow.product_gradients = core::DataType::bf16;
  const ParameterStore store(specs({"key", "value"}), Arenas::with_gradients, {}, narrow);
  REQUIRE(store.gradient_ranges().size() == 1);
  CHECK(store.gradient_ranges()[0].type == core::DataType::fp32);
  const ParameterStore other(specs({"words", "bias"}), Arenas::with_gradients, {}, narrow);
  REQUIRE(other.gradient_ranges().size() == 2);
  CHECK(other.gradient_ranges()[0].type == core::DataType::bf16);
  CHECK(other.gradient_ranges()[1].begin == 96);
}

TEST_CASE("of joined parameters all are trainable or none is") {
  CHECK_THROWS_AS(ParameterStore(specs({"value"}), Arenas::none), core::Error);
  CHECK_THROWS_AS(ParameterStore(specs({"key"}), Arenas::none), core::Error);
}
