// ParameterStore: every parameter of a model in one arena, and an arena of the same layout for gradients. One slice per
// parameter, under its Hugging Face name. Arenas make reduction, update, sharding and checkpoints plain loops over flat
// ranges. What only the owner of a range needs (Adam's moments) is with the optimizer; where gradients are sharded too,
// there is no arena of them and slices get memory while backward needs it. Gradients that one matrix product
// makes may be stored in 16 bits: then gradients lie in ranges of one type each.
//
// Frozen parameters, which a training leaves as they are, lie after all trainable ones. So gradients, sums, norms and
// optimizer states are those of the elements [0, trainable_size()), and with nothing frozen of the whole arena.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/cache_line.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/postponed_updates.hpp"
#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::core {

/// The values that a parameter begins a training from scratch with.
enum class InitialValues {
  normal,
  zeros,
  ones,
  uniform,  ///< in ±1/√columns
};

/// What a layer asks for. `rows` × `columns`, a vector being one row; `shape` as in the Hugging Face file.
struct ParameterSpec {
  std::string name;                 ///< Hugging Face name, e.g. "bert.encoder.layer.0.attention.self.query.weight"
  std::vector<std::int64_t> shape;  ///< e.g. {hidden, hidden} or {hidden}; of this rank's part if it is a shard
  bool decay = true;                ///< false for biases and layer norms: no weight decay
  bool joined = false;              ///< directly behind the parameter before, so that both form one taller matrix
  std::string copy_of{};            ///< name of the parameter, perhaps on another rank, that this one always equals
  Shard shard{};                    ///< what part of the parameter it is
  /// A batch gives a gradient to few rows only (an embedding table). Such parameters come first in a store.
  bool row_sparse = false;
  /// Its rows are looked up, and no matrix product reads it. Such parameters come first too.
  bool lookup_only = false;
  /// One matrix product a micro-batch makes its whole gradient: the step's first one may replace it.
  bool one_product = false;
  InitialValues initial = InitialValues::normal;
  double deviation = 0;        ///< of normal initial values; 0: that of the whole model
  double cutoff = 0;           ///< normal initial values lie within so many deviations; 0: anywhere
  std::int64_t zero_row = -1;  ///< of the whole parameter: a row that begins as zeros; -1: none
  bool trainable = true;       ///< false: frozen, without gradient; joined parameters are alike
  bool adapter = false;        ///< added to a model: no file of the model's weights has it
};

struct ParameterSlice {
  std::string name;
  std::vector<std::int64_t> shape;
  bool decay = true;
  bool joined = false;      ///< directly behind the slice before
  std::int64_t offset = 0;  ///< elements from the arena's begin
  std::int64_t size = 0;    ///< elements
  std::int64_t rows = 0, columns = 0;
  std::string copy_of{};  ///< as in the spec; empty for a parameter in its own right
  Shard shard{};          ///< as in the spec
  bool one_product = false;
  InitialValues initial = InitialValues::normal;
  double deviation = 0, cutoff = 0;  ///< as in the spec
  std::int64_t zero_row = -1;        ///< as in the spec
  bool trainable = true;             ///< as in the spec
  bool adapter = false;              ///< as in the spec
};

class ParameterStore {
 public:
  enum class Arenas {
    none,            ///< the layout alone, for estimates
    values,          ///< parameters alone, for evaluation and prediction
    with_gradients,  ///< and gradients
  };

  /// In elements, multiples of 16. Slices (but joined ones) begin and the arena ends at a multiple, so that ranks can
  /// share out any run of slices in equal pieces.
  struct Alignment {
    std::int64_t slice = floats_of_cache_line, arena = floats_of_cache_line;
  };

  /// Allocators of the arenas: each returns zeroed memory of so many bytes, which outlives the store. An empty one
  /// leaves the arena in the store's own memory.
  struct Memory {
    std::function<void*(std::size_t)> values{}, gradients{};
    bool zero_lines = false;  ///< mark the lines of row_sparse parameters that have a gradient
    /// In what gradients of parameters with one_product are stored. Others than fp32 are in the store's own memory.
    DataType product_gradients = DataType::fp32;
  };

  /// Gradients of neighbouring elements [begin, end) of the arena, stored alike from `data` on.
  struct GradientRange {
    std::int64_t begin = 0, end = 0;
    DataType type = DataType::fp32;
    std::byte* data = nullptr;
  };

  ParameterStore(const std::vector<ParameterSpec>& specs, Arenas arenas, const Alignment& alignment,
                 const Memory& memory);
  ParameterStore(const std::vector<ParameterSpec>& specs, Arenas arenas, const Alignment& alignment)
      : ParameterStore(specs, arenas, alignment, Memory{}) {}
  ParameterStore(const std::vector<ParameterSpec>& specs, Arenas arenas) : ParameterStore(specs, arenas, Alignment{}) {}

  /// Slices in the order of the arena: trainable ones as in the specs, then frozen ones, looked-up ones last.
  const std::vector<ParameterSlice>& slices() const { return slices_; }
  /// Index of a name; throws Error(internal) if there is none.
  int find(const std::string& name) const;
  std::int64_t parameters() const { return parameters_; }  ///< without padding between slices and without copies
  std::int64_t trainable_parameters() const { return trainable_parameters_; }  ///< of those, the ones that are trained
  std::int64_t arena_size() const { return arena_size_; }  ///< elements, padding included (padding stays zero)
  /// End of the elements of trainable parameters, padding included; a multiple of the arena's alignment.
  std::int64_t trainable_size() const { return trainable_size_; }
  bool is_trainable(int slice) const { return slices_[static_cast<std::size_t>(slice)].trainable; }

  // Parameters are read as constants, and what is read is up to date: postponed updates of it are made first. A caller
  // that changes parameters says so: what was made of them (16-bit copies for products, say) is behind from then on.
  std::span<const float> values() const { return values(0, arena_size_); }
  /// Elements [begin, end).
  std::span<const float> values(std::int64_t begin, std::int64_t end) const {
    finish_updates(begin);
    return {values_.data() + begin, static_cast<std::size_t>(end - begin)};
  }
  Tensor<const float> value(int slice) const {
    finish_updates(slices_[static_cast<std::size_t>(slice)].offset);
    return view(values_.data(), slice);
  }
  /// A table of which the caller reads only the distinct ids (unique) of a batch's tokens. With unique = 0 the ids are
  /// unknown, and the caller may read the whole table.
  Tensor<const float> value_of_ids(int slice, const std::int32_t* ids, std::int64_t unique) const;
  /// A table of which the caller reads only rows [0, count).
  Tensor<const float> value_of_first_rows(int slice, std::int64_t count) const;
  /// To be written before copies of the values are read; a caller that writes later says so again.
  std::span<float> change_values() {
    finish_updates(0);
    ++version_;
    return {values_.data(), size()};
  }
  Tensor<float> change_value(int slice) {
    finish_updates(slices_[static_cast<std::size_t>(slice)].offset);
    ++version_;
    return view(values_.data(), slice);
  }
  /// As change_values(), for the optimizer itself: postponed updates wait on.
  void note_change() { ++version_; }
  /// Updates of the elements [0, marked()) that wait for readers; null: none do. They must outlive the store or be
  /// reset to null. Throws Error(internal) if other ones are set.
  void set_postponed(PostponedUpdates* updates) {
    require(updates == nullptr || postponed_ == nullptr, "parameter store: a second optimizer postpones updates");
    postponed_ = updates;
  }
  std::uint64_t version() const { return version_; }  ///< another one after each change

  /// Elements [begin, end) that hold all parameters which are not just looked up.
  std::int64_t products_begin() const { return products_begin_; }
  std::int64_t products_end() const { return products_end_; }

  /// Without data for a frozen slice. Throws Error(internal) if it is not stored in fp32.
  Tensor<float> gradient(int slice) const { return gradient_matrix(slice).as<float>(); }
  Matrix gradient_matrix(int slice) const {
    const auto i = static_cast<std::size_t>(slice);
    const ParameterSlice& s = slices_[i];
    return {gradient_addresses_[i], s.rows, s.columns, s.columns, gradient_type(s)};
  }
  /// In what gradients of parameters with one_product are stored.
  DataType product_gradients() const { return product_gradients_; }
  /// Bytes of all gradients without marks, also for a layout alone.
  std::int64_t gradient_bytes() const { return gradient_floats_ * static_cast<std::int64_t>(sizeof(float)); }
  /// From now on the gradients of the slices in [begin, end) of the arena are those from `gradients` on, in the same
  /// layout.
  void assign_gradients(std::int64_t begin, std::int64_t end, float* gradients);

  /// The gradients [0, marked()) have marks, one for each cache line (ops/flat.hpp): 0 if the line is
  /// zero. The code that writes gradients sets them.
  std::int64_t marked() const { return marks_.size() * floats_of_cache_line; }
  /// Marks from the line of element `begin` on; null from marked() on.
  std::uint8_t* marks(std::int64_t begin) const {
    return begin < marked() ? marks_.data() + begin / floats_of_cache_line : nullptr;
  }
  std::uint8_t* marks_of(int slice) const { return marks(slices_[static_cast<std::size_t>(slice)].offset); }

  /// Empty if there is no arena of gradients. Throws Error(internal) if some are not stored in fp32.
  std::span<float> gradients() const {
    require(product_gradients_ == DataType::fp32, "parameter store: gradients of several types are no arena of floats");
    return {gradients_.data(), static_cast<std::size_t>(gradients_.size())};
  }
  /// All of them, ascending, in as few ranges as their types allow.
  const std::vector<GradientRange>& gradient_ranges() const { return gradient_ranges_; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(arena_size_); }
  DataType gradient_type(const ParameterSlice& slice) const {
    return slice.one_product ? product_gradients_ : DataType::fp32;
  }
  void lay_out_gradients();
  /// Makes postponed updates for a reader of elements from `begin` on.
  void finish_updates(std::int64_t begin) const {
    if (postponed_ != nullptr && begin < marked()) postponed_->finish();
  }
  Tensor<float> view(float* arena, int slice) const {
    const ParameterSlice& s = slices_[static_cast<std::size_t>(slice)];
    return {arena + s.offset, s.rows, s.columns};
  }

  std::vector<ParameterSlice> slices_;
  std::int64_t parameters_ = 0, trainable_parameters_ = 0;
  std::int64_t arena_size_ = 0, trainable_size_ = 0;
  std::int64_t products_begin_ = 0, products_end_ = 0;
  std::uint64_t version_ = 0;
  Buffer<float> values_, gradients_;
  Buffer<std::uint8_t> marks_;
  PostponedUpdates* postponed_ = nullptr;
  DataType product_gradients_ = DataType::fp32;
  std::int64_t gradient_floats_ = 0;  // that all gradients take
  std::vector<GradientRange> gradient_ranges_;
  std::vector<void*> gradient_addresses_;  // by slice
};

}  // namespace bert_hpc::core
