// Updates that wait for readers, beside an optimizer that makes each at once: the same bits, whenever rows are read.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;

namespace {

constexpr std::int64_t words = 700, columns = 48, positions = 20;
constexpr int table = 0, position_table = 1, dense = 2;
constexpr double learning_rate = 0.01;

std::vector<core::ParameterSpec> specs() {
  return {{.name = "words", .shape = {words, columns}, .row_sparse = true, .lookup_only = true},
          {.name = "positions", .shape = {positions, columns}, .row_sparse = true, .lookup_only = true},
          {.name = "dense", .shape = {30, 40}}};
}

/// A model's parameters and their optimizer.
class Trainee {
 public:
  /// `marks`: known zeros of gradients are marked, so that updates can wait.
  Trainee(const std::string& name, bool marks, bool coupled_decay = false)
      : store(specs(), core::ParameterStore::Arenas::with_gradients, {}, {.zero_lines = marks}) {
    core::copy_to_device(std::span<const float>(test::normal_numbers(store.arena_size(), 1, 0.5f)),
                         store.change_values());
    float* const gradients = store.gradients().data();
    std::vector<train::OwnedRange> owned;
    if (marks) owned.push_back({0, store.marked(), gradients, store.marks(0)});
    const std::int64_t begin = marks ? store.marked() : 0;
    owned.push_back({begin, store.trainable_size() - begin, gradients + begin});
    optimizer.emplace(train::OptimizerSettings{.name = name, .max_gradient_norm = 0, .coupled_decay = coupled_decay},
                      store, owned, false, nullptr, std::span<const train::ArenaRange>(),
                      train::tensor_norm_scope(store.slices(), specs(), *alone_, true));
  }

  std::vector<float> values() const { return copy_of(store.values()); }
  std::vector<float> states() const {
    static_cast<void>(store.values());  // makes postponed updates
    std::vector<float> all;
    for (std::size_t s = 0; s < optimizer->states().kinds().size(); ++s) {
      const std::vector<float> numbers = copy_of(std::span<const float>(optimizer->states().numbers(s)));
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }
  static std::vector<float> copy_of(std::span<const float> device) {
    std::vector<float> host(device.size());
    core::copy_to_host(device, std::span<float>(host));
    return host;
  }

  core::ParameterStore store;
  std::optional<train::Optimizer> optimizer;

 private:
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
};

/// What a batch reads.
struct Batch {
  std::vector<std::int32_t> ids;  // distinct, ascending
  std::int64_t longest = 0;
};

/// Few rows, some of them often and most of them never.
Batch random_batch(std::mt19937& engine) {
  Batch batch;
  for (std::int32_t id = 0; id < words / 2; ++id) {
    if (engine() % static_cast<unsigned>(2 + id) == 0) batch.ids.push_back(id);
  }
  batch.longest = 1 + static_cast<std::int64_t>(engine() % positions);
  return batch;
}

/// Gradients of the batch's rows, and their marks if there are any.
void set_gradients(const Trainee& trainee, const Batch& batch, unsigned seed) {
  const core::ParameterStore& store = trainee.store;
  const std::vector<float> random = test::normal_numbers(store.arena_size(), seed, 0.1f);
  std::vector<float> gradients(random.size(), 0.0f);
  const auto take = [&](int slice, std::int64_t first, std::int64_t rows) {
    const core::ParameterSlice& s = store.slices()[static_cast<std::size_t>(slice)];
    const auto begin = static_cast<std::ptrdiff_t>(s.offset + first * s.columns);
    std::copy_n(random.begin() + begin, rows * s.columns, gradients.begin() + begin);
  };
  for (const std::int32_t id : batch.ids) take(table, id, 1);
  take(position_table, 0, batch.longest);
  take(dense, 0, store.slices()[dense].rows);
  core::copy_to_device(std::span<const float>(gradients), store.gradients());
  if (store.marked() == 0) return;
  core::Buffer<std::int32_t> ids(std::ssize(batch.ids));
  core::copy_to_device(std::span<const std::int32_t>(batch.ids), std::span(ids.data(), batch.ids.size()));
  ops::mark_rows({store.marks_of(table)}, columns, ids.data(), ids.size());
  ops::mark_first_rows({store.marks_of(position_table)}, columns, batch.longest);
}

/// The rows of a batch as a layer reads them.
std::vector<float> rows_of(const Trainee& trainee, const Batch& batch) {
  core::Buffer<std::int32_t> ids(std::ssize(batch.ids));
  core::copy_to_device(std::span<const std::int32_t>(batch.ids), std::span(ids.data(), batch.ids.size()));
  const auto word = trainee.store.value_of_ids(table, ids.data(), ids.size());
  const auto position = trainee.store.value_of_first_rows(position_table, batch.longest);
  std::vector<float> rows;
  const auto append = [&](const float* from, std::int64_t count) {
    const std::vector<float> more = Trainee::copy_of({from, static_cast<std::size_t>(count)});
    rows.insert(rows.end(), more.begin(), more.end());
  };
  for (const std::int32_t id : batch.ids) append(word.row(id), columns);
  append(position.data, batch.longest * columns);
  return rows;
}

/// Number of rows that differ, bit for bit, in the word table's memory, whatever waits.
std::int64_t rows_behind(const Trainee& waiting, const Trainee& up_to_date) {
  const auto peek = [](const Trainee& trainee) {
    const auto none = trainee.store.value_of_first_rows(table, 0);
    return Trainee::copy_of({none.data, static_cast<std::size_t>(words * columns)});
  };
  const std::vector<float> a = peek(waiting), b = peek(up_to_date);
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < words; ++row) {
    count += std::equal(a.begin() + row * columns, a.begin() + (row + 1) * columns, b.begin() + row * columns) ? 0 : 1;
  }
  return count;
}

double rate(int step) {
  return learning_rate * (1.0 - step / 1000.0);
}

/// Step number `step` of both, on the same gradients.
void take_step(Trainee& a, Trainee& b, const Batch& batch, int step) {
  for (Trainee* const trainee : {&a, &b}) {
    set_gradients(*trainee, batch, static_cast<unsigned>(step));
    trainee->optimizer->step(rate(step), step, 1.0);
  }
}

}  // namespace

TEST_CASE("postponed updates have the bits of updates at each step") {
  Trainee waiting("adamw", true), at_once("adamw", false);
  std::mt19937 engine(7);
  std::int64_t most_behind = 0;
  for (int step = 1; step <= 300; ++step) {
    INFO("step " << step);
    const Batch batch = random_batch(engine);
    REQUIRE(rows_of(waiting, batch) == rows_of(at_once, batch));
    for (Trainee* const trainee : {&waiting, &at_once}) {
      set_gradients(*trainee, batch, static_cast<unsigned>(step));
      if (step % 50 == 20) {
        trainee->optimizer->discard();  // a skipped step
      } else {
        trainee->optimizer->step(rate(step), step, 1.0);
      }
      REQUIRE(std::ranges::all_of(Trainee::copy_of(trainee->store.gradients()), [](float g) { return g == 0.0f; }));
    }
    if (!core::is_gpu_build()) most_behind = std::max(most_behind, rows_behind(waiting, at_once));
    if (step % 130 != 0) continue;  // twice the longest wait, and not a multiple of it
    REQUIRE(waiting.values() == at_once.values());
    REQUIRE(waiting.states() == at_once.states());
    REQUIRE(rows_behind(waiting, at_once) == 0);
  }
  CHECK(waiting.values() == at_once.values());
  if (!core::is_gpu_build()) CHECK(most_behind > words / 2);  // else nothing waited
}

TEST_CASE("postponed updates follow a factor in device memory") {
  Trainee waiting("adamw", true), at_once("adamw", false);
  std::mt19937 engine(3);
  core::Buffer<float> factor(1);
  for (int step = 1; step <= 100; ++step) {
    const Batch batch = random_batch(engine);
    const float scale = step % 10 == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0f / static_cast<float>(step);
    core::copy_to_device(&scale, factor.data(), sizeof scale);
    for (Trainee* const trainee : {&waiting, &at_once}) {
      set_gradients(*trainee, batch, static_cast<unsigned>(step));
      trainee->optimizer->step_on_device(rate(step), step, factor.data());
      REQUIRE(std::ranges::all_of(Trainee::copy_of(trainee->store.gradients()), [](float g) { return g == 0.0f; }));
    }
  }
  CHECK(waiting.values() == at_once.values());
  CHECK(waiting.states() == at_once.states());
}

TEST_CASE("parameters and states may be set while updates wait") {
  Trainee waiting("adamw", true), at_once("adamw", false);
  std::mt19937 engine(5);
  const std::vector<float> set = test::normal_numbers(waiting.store.arena_size(), 99, 0.5f);
  for (int step = 1; step <= 120; ++step) {
    take_step(waiting, at_once, random_batch(engine), step);
    if (step % 40 != 0) continue;
    for (Trainee* const trainee : {&waiting, &at_once}) {
      core::copy_to_device(std::span<const float>(set), trainee->store.change_values());
      for (std::size_t s = 0; s < 2; ++s) {
        const std::span<float> states = trainee->optimizer->states().numbers(s);
        core::copy_to_device(std::span<const float>(set).first(states.size()), states);
        if (s == 0) continue;
        core::fill_on_device(states.data(), 0, states.size_bytes());  // squares are not negative
      }
    }
  }
  CHECK(waiting.values() == at_once.values());
  CHECK(waiting.states() == at_once.states());
}

TEST_CASE("a thread reads all parameters while another one reads rows") {
  if (core::is_gpu_build()) return;
  Trainee waiting("adamw", true), at_once("adamw", false);
  std::mt19937 engine(13);
  Batch everything{{}, positions};  // so that both threads come to the same rows
  for (std::int32_t id = 0; id < words; ++id) everything.ids.push_back(id);
  for (int step = 1; step <= 600; ++step) {
    take_step(waiting, at_once, random_batch(engine), step);
    if (step % 10 != 0) continue;
    std::vector<float> all;
    std::atomic<bool> reads = false;
    std::thread reader([&] {
      reads = true;
      all = waiting.values();
    });
    while (!reads) {
    }
    const std::vector<float> rows = rows_of(waiting, everything);
    reader.join();
    REQUIRE(rows == rows_of(at_once, everything));
    REQUIRE(all == at_once.values());
    REQUIRE(waiting.states() == at_once.states());
  }
}

TEST_CASE("an optimizer that ends makes its postponed updates") {
  Trainee waiting("adamw", true), at_once("adamw", false);
  std::mt19937 engine(9);
  for (int step = 1; step <= 10; ++step) {
    take_step(waiting, at_once, random_batch(engine), step);
  }
  waiting.optimizer.reset();
  CHECK(rows_behind(waiting, at_once) == 0);
  CHECK(waiting.values() == at_once.values());
}

TEST_CASE("no update waits where it depends on more than the step") {
  for (const bool coupled : {false, true}) {
    for (const ops::OptimizerKind& kind : ops::optimizer_kinds()) {
      if (kind.input.name == "adamw" && !coupled) continue;
      INFO(kind.input.name << (coupled ? ", coupled weight decay" : ""));
      Trainee marked(kind.input.name, true, coupled), plain(kind.input.name, false, coupled);
      std::mt19937 engine(11);
      for (int step = 1; step <= 5; ++step) {
        take_step(marked, plain, random_batch(engine), step);
        REQUIRE(rows_behind(marked, plain) == 0);
      }
    }
  }
}
