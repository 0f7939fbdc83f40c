// Histories and scales of FP8 operands. There are few, so one thread processes each.
#include "bert_hpc/ops/fp8_scales.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <sstream>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

using core::Float8;

constexpr Fp8Operand with_history[] = {Fp8Operand::x, Fp8Operand::d_y};

const char* name_of(Fp8Operand operand) {
  return operand == Fp8Operand::x ? "x" : "d_y";
}

// Appends the step's magnitudes to the histories and resets them to zero.
void enter_magnitudes(std::int64_t count, std::int64_t slot, std::int64_t known, float* largest, float* history) {
  kernel::for_items(
      "bert_hpc::ops::fp8_enter_magnitudes", count, KOKKOS_LAMBDA(std::int64_t i) {
        enter_magnitude(history + i * fp8_history, slot, known, __builtin_bit_cast(std::uint32_t, largest[i]));
        largest[i] = 0.0f;
      });
}

// Computes scales from the largest entry of each history: first those of x in E4M3, then those of d_y in E5M2.
void scale_by_history(std::int64_t count, std::int64_t known, const float* history, float* scale, float* inverse) {
  kernel::for_items(
      "bert_hpc::ops::fp8_scale_by_history", count, KOKKOS_LAMBDA(std::int64_t i) {
        const float largest = largest_known(history + i * fp8_history, known);
        scale[i] = core::float8_scale(largest, i < count / 2 ? Float8::e4m3 : Float8::e5m2);
        inverse[i * fp8_inverse_stride] = 1.0f / scale[i];
      });
}

// Weights that are not finite lead to a loss that is not finite, so any scale is acceptable.
void scale_by_magnitude(std::int64_t count, float* largest, float* scale, float* inverse) {
  kernel::for_items(
      "bert_hpc::ops::fp8_scale_by_magnitude", count, KOKKOS_LAMBDA(std::int64_t i) {
        const bool finite = __builtin_bit_cast(std::uint32_t, largest[i]) < 0x7F800000u;
        scale[i] = core::float8_scale(finite ? largest[i] : 0.0f, Float8::e4m3);
        inverse[i * fp8_inverse_stride] = 1.0f / scale[i];
        largest[i] = 0.0f;
      });
}

[[noreturn]] void refuse(const std::string& why) {
  throw core::Error(core::ExitCode::files, "The checkpoint's FP8 magnitudes cannot be used: " + why + '.');
}

}  // namespace

Fp8Scales::Fp8Scales(std::vector<std::string> layers, bool allocates) : names_(std::move(layers)) {
  if (!allocates) return;
  const auto operands = 3 * static_cast<std::int64_t>(names_.size());
  scale_ = core::Buffer<float>(operands);
  inverse_ = core::Buffer<float>(operands * fp8_inverse_stride);
  largest_ = core::Buffer<float>(operands);
  history_ = core::Buffer<float>(histories() * fp8_history);
}

std::int64_t Fp8Scales::bytes() const {
  const auto layers = static_cast<std::int64_t>(names_.size());
  return ((2 + fp8_inverse_stride) * 3 * layers + histories() * fp8_history) * static_cast<std::int64_t>(sizeof(float));
}

Fp8Scale Fp8Scales::of(std::size_t layer, Fp8Operand operand) const {
  const auto i = static_cast<std::int64_t>(index(layer, operand));
  return {.format = format_of(operand),
          .scale = scale_.data() + i,
          .inverse = inverse_.data() + i * fp8_inverse_stride,
          .largest = reinterpret_cast<std::uint32_t*>(largest_.data() + i)};
}

void Fp8Scales::scale_weights() {
  const auto first = static_cast<std::int64_t>(index(0, Fp8Operand::weight));
  scale_by_magnitude(static_cast<std::int64_t>(names_.size()), largest_.data() + first, scale_.data() + first,
                     inverse_.data() + first * fp8_inverse_stride);
}

void Fp8Scales::make_scales(std::int64_t known) {
  scale_by_history(histories(), known, history_.data(), scale_.data(), inverse_.data());
}

void Fp8Scales::end_step() {
  enter_magnitudes(histories(), steps_ % fp8_history, std::min(steps_, fp8_history), largest_.data(), history_.data());
  ++steps_;
  make_scales(std::min(steps_, fp8_history));
}

void Fp8Scales::forget_step() {
  core::fill_on_device(largest_.data(), 0, static_cast<std::size_t>(histories()) * sizeof(float));
}

std::string Fp8Scales::text() const {
  if (!known()) return {};
  const auto count = static_cast<std::size_t>(histories() * fp8_history);
  std::vector<float> staging;
  const std::span<const float> all = core::on_host(std::span<const float>(history_.data(), count), staging);
  const std::int64_t entries = std::min(steps_, fp8_history), oldest = steps_ > entries ? steps_ % fp8_history : 0;
  std::ostringstream text;
  text << std::hex;
  for (std::size_t layer = 0; layer < names_.size(); ++layer) {
    for (const Fp8Operand operand : with_history) {
      text << names_[layer] << ' ' << name_of(operand);
      const float* ring = all.data() + index(layer, operand) * static_cast<std::size_t>(fp8_history);
      for (std::int64_t i = 0; i < entries; ++i) {
        text << ' ' << std::bit_cast<std::uint32_t>(ring[(oldest + i) % fp8_history]);
      }
      text << '\n';
    }
  }
  return text.str();
}

void Fp8Scales::restore(const std::string& text) {
  std::map<std::string, std::string, std::less<>> lines;  // "layer operand" → its magnitudes
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const auto end = line.find(' ', line.find(' ') + 1);
    if (end == std::string::npos) refuse("a line of them is incomplete");
    lines.insert_or_assign(line.substr(0, end), line.substr(end));
  }
  std::vector<float> all(static_cast<std::size_t>(histories() * fp8_history));
  std::int64_t entries = -1;
  for (std::size_t layer = 0; layer < names_.size(); ++layer) {
    for (const Fp8Operand operand : with_history) {
      const auto line = lines.find(names_[layer] + ' ' + name_of(operand));
      if (line == lines.end()) refuse("those of " + names_[layer] + " are missing");
      std::istringstream numbers(line->second);
      numbers >> std::hex;
      std::int64_t found = 0;
      for (std::uint32_t bits; numbers >> bits; ++found) {
        if (found == fp8_history || bits >= 0x7F800000u) refuse("those of " + names_[layer] + " are damaged");
        all[index(layer, operand) * static_cast<std::size_t>(fp8_history) + static_cast<std::size_t>(found)] =
            std::bit_cast<float>(bits);
      }
      if (found == 0 || !numbers.eof() || (entries >= 0 && found != entries)) {
        refuse("those of " + names_[layer] + " are damaged");
      }
      entries = found;
    }
  }
  if (entries < 0) return;  // no layers here
  core::copy_to_device(std::span<const float>(all),
                       std::span(history_.data(), static_cast<std::size_t>(history_.size())));
  steps_ = entries;
  make_scales(entries);
}

}  // namespace bert_hpc::ops
