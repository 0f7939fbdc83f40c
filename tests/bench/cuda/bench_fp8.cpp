// Which 8-bit products cuBLASLt accepts on the GPU at hand, and how fast they are. The program describes products to
// the library itself, so that one factor varies at a time: rows, alignment of scales, rows for which the algorithm is
// chosen, scratch, memory of operands. Operands are ones, so it also checks the results.
//
// Part 1: a line for each factor and product, a character for each number of rows. Part 2: layers of BERT-base and
// BERT-large. Part 3: times in µs beside the bf16 product of the same shape, and times of the rounding kernels. Part 4:
// factors that may end in a device error, which would stop all that follows. The last line begins with "= ".
// The program ends after about 30 s and takes no arguments.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "library_products.hpp"

using namespace bert_hpc;
using namespace bert_hpc::bench;

namespace {

const auto start = std::chrono::steady_clock::now();

bool out_of_time() {
  return std::chrono::steady_clock::now() - start > std::chrono::seconds(27);
}

/// A line for each product: what becomes of it for each number of rows. Returns how many of them work.
int show(LibraryProducts& library, const Way& way, const std::vector<std::int64_t>& rows, std::int64_t in,
         std::int64_t out) {
  int works = 0;
  std::printf("%-44s", way.name);
  for (const Kind kind : kinds) {
    std::string line;
    for (const std::int64_t count : rows) {
      const auto up = [](std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; };
      Problem p = product(kind, up(count, way.rows_multiple), in, out, true);
      if (kind == Kind::weight) p.stride = up(p.k, way.stride_multiple);
      line += library.attempt(p, way);
      works += line.back() == '+' ? 1 : 0;
      if (line.back() == '!') {
        std::printf(" %s %s: the device failed\n= the device failed: %s, %s\n", kind_names[static_cast<int>(kind)],
                    line.c_str(), way.name, kind_names[static_cast<int>(kind)]);
        std::exit(1);
      }
    }
    std::printf("  %s %s", kind_names[static_cast<int>(kind)], line.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
  return works;
}

struct Layer {
  std::int64_t in, out;
};

std::vector<Layer> layers_of(std::int64_t hidden) {
  return {{hidden, 3 * hidden}, {hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}};
}

/// Tries all layers with padded rows, either type of result and either beta; prints what fails.
std::string show_layers(LibraryProducts& library, const std::vector<std::int64_t>& rows) {
  const Way way{.name = "", .rows_multiple = 16};
  int tried = 0, works = 0;
  for (const std::int64_t hidden : {768, 1024}) {
    for (const Layer& layer : layers_of(hidden)) {
      for (const Kind kind : kinds) {
        for (const std::int64_t count : rows) {
          for (const cudaDataType_t type : {CUDA_R_16BF, CUDA_R_32F}) {
            for (const float beta : {0.0f, 1.0f}) {
              if ((kind == Kind::weight && type != CUDA_R_32F) || out_of_time()) continue;
              Problem p = product(kind, count, layer.in, layer.out, true);
              p.c = type;
              p.beta = beta;
              const char found = library.attempt(p, way);
              ++tried;
              works += found == '+' ? 1 : 0;
              if (found == '+') continue;
              std::printf("layer %lld to %lld, %s, %lld rows, result %s, beta %.0f: %c\n",
                          static_cast<long long>(layer.in), static_cast<long long>(layer.out),
                          kind_names[static_cast<int>(kind)], static_cast<long long>(count),
                          type == CUDA_R_32F ? "fp32" : "bf16", static_cast<double>(beta), found);
            }
          }
        }
      }
    }
  }
  const std::string text = std::to_string(works) + " of " + std::to_string(tried);
  std::printf("layers of base and large, rows in multiples of 16, results in bf16 and fp32, beta 0 and 1: %s work\n",
              text.c_str());
  return text;
}

/// µs of all products of a layer of the encoder: bf16, 8 bits, 8 bits with fast sums.
std::string show_times(LibraryProducts& library, const char* model, std::int64_t hidden, std::int64_t rows) {
  float sums[3] = {};
  for (const Layer& layer : layers_of(hidden)) {
    for (const Kind kind : kinds) {
      std::printf("%s, %lld rows, %lld to %lld, %-8s", model, static_cast<long long>(rows),
                  static_cast<long long>(layer.in), static_cast<long long>(layer.out),
                  kind_names[static_cast<int>(kind)]);
      for (int type = 0; type < 3 && !out_of_time(); ++type) {
        const Way way{.name = "", .fast = static_cast<signed char>(type == 2 ? 1 : 0)};
        const auto [first, best] = library.microseconds(product(kind, rows, layer.in, layer.out, type > 0), way);
        std::printf("  %s %6.1f (best %6.1f)",
                    type == 0   ? "bf16"
                    : type == 1 ? "fp8"
                                : "fast",
                    static_cast<double>(first), static_cast<double>(best));
        sums[type] += best;
      }
      std::printf("\n");
    }
  }
  char text[100];
  std::snprintf(text, sizeof text, "%s %lld: bf16 %.0f, fp8 %.0f, fast %.0f us", model, static_cast<long long>(rows),
                static_cast<double>(sums[0]), static_cast<double>(sums[1]), static_cast<double>(sums[2]));
  std::printf("%s\n", text);
  std::fflush(stdout);
  return text;
}

/// µs of rounding a bf16 matrix, as it is and transposed.
void show_rounding(std::int64_t rows, std::int64_t columns) {
  const std::int64_t padded = (rows + 15) / 16 * 16;
  const core::Buffer<core::Bf16> x(rows * columns);
  const core::Buffer<std::uint8_t> plain(padded * columns), transposed(padded * columns);
  const core::Buffer<float> scale(16);
  const core::Buffer<std::uint32_t> largest(1);
  const ops::Fp8Scale s{core::Float8::e4m3, scale.data(), scale.data(), largest.data()};
  const core::Tensor<core::Bf16> from(x.data(), rows, columns);
  const core::Tensor<std::uint8_t> to(plain.data(), rows, columns), to_transposed(transposed.data(), columns, padded);
  const double bytes = 3.0 * static_cast<double>(rows * columns);
  const auto show_one = [&](const char* name, double moved, const std::function<void()>& work) {
    work();
    const double time = static_cast<double>(LibraryProducts::time_of(work));
    std::printf("  %s %5.1f us %4.2f TB/s", name, time, moved / time * 1e-6);
  };
  std::printf("rounding %lld x %lld:", static_cast<long long>(rows), static_cast<long long>(columns));
  show_one("as it is", bytes, [&] { ops::round_to_fp8(from, s, true, to); });
  show_one("transposed", bytes, [&] { ops::round_to_fp8_transposed(from, s, false, to_transposed); });
  show_one("both", bytes / 3 * 4, [&] { ops::round_to_fp8_transposed(from, s, true, to_transposed, to); });
  std::printf("\n");
}

}  // namespace

int main() {
  const core::DeviceRuntime runtime;
  int driver = 0, toolkit = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&toolkit), "cudaRuntimeGetVersion");
  std::printf("%s, driver for CUDA %d, runtime %d, cuBLASLt %zu\n", core::DeviceRuntime::description().c_str(), driver,
              toolkit, cublasLtGetVersion());
  LibraryProducts library;

  const std::vector<std::int64_t> rows = {1,  8,  15, 16,  17,  23,  24,  32,   33,   40,
                                          48, 64, 96, 128, 201, 208, 512, 4096, 5065, 5072};
  std::printf("rows");
  for (const std::int64_t count : rows) std::printf(" %lld", static_cast<long long>(count));
  std::printf("\n+ right, x wrong, r refused at launch, - no algorithm, ! device failed\n");
  const int all = static_cast<int>(3 * rows.size());
  std::printf("layer 768 to 3072\n");
  const int exact = show(library, {.name = "aligned scales, exact algorithm"}, rows, 768, 3072);
  const int padded = show(library, {.name = "rows padded to 16", .rows_multiple = 16}, rows, 768, 3072);
  show(library, {.name = "rows padded to 32", .rows_multiple = 32}, rows, 768, 3072);
  show(library, {.name = "stride of d_w's operands padded to 16", .stride_multiple = 16}, rows, 768, 3072);
  show(library, {.name = "padded, no split", .rows_multiple = 16, .splits = false}, rows, 768, 3072);
  show(library, {.name = "padded, algorithm of 4096", .nominal_rows = 4096, .rows_multiple = 16}, rows, 768, 3072);
  show(library, {.name = "padded, algorithm of 512", .nominal_rows = 512, .rows_multiple = 16}, rows, 768, 3072);
  show(library, {.name = "exact rows, algorithm of 4096", .nominal_rows = 4096}, rows, 768, 3072);
  show(library,
       {.name = "padded, algorithm of 4096, no split", .nominal_rows = 4096, .rows_multiple = 16, .splits = false},
       rows, 768, 3072);
  show(library, {.name = "padded, no scratch", .rows_multiple = 16, .scratch = 0}, rows, 768, 3072);
  show(library, {.name = "padded, 4 MiB of scratch", .rows_multiple = 16, .scratch = 4 << 20}, rows, 768, 3072);
  show(library, {.name = "padded, alignment of 256 promised", .rows_multiple = 16, .alignment = 256}, rows, 768, 3072);
  show(library, {.name = "padded, fast sums", .rows_multiple = 16, .fast = 1}, rows, 768, 3072);
  std::printf("layer 64 to 192\n");
  show(library, {.name = "aligned scales, exact algorithm"}, rows, 64, 192);
  show(library, {.name = "rows padded to 16", .rows_multiple = 16}, rows, 64, 192);
  const std::string layers = show_layers(library, {16, 32, 48, 208, 4096, 5072});

  std::string times;
  for (const std::int64_t count : {5072, 5065, 16384}) {
    times += "; " + show_times(library, "base", 768, count);
    times += "; " + show_times(library, "large", 1024, count);
  }
  for (const std::int64_t columns : {768, 1024, 3072, 4096}) show_rounding(5072, columns);

  std::printf("layer 768 to 3072\n");
  show(library, {.name = "padded, operands pinned", .rows_multiple = 16, .pinned_operands = true}, rows, 768, 3072);
  show(library, {.name = "padded, scales pinned", .rows_multiple = 16, .pinned_scales = true}, rows, 768, 3072);
  show(library, {.name = "padded, scales 32 bytes apart", .scale_a = 8, .scale_b = 16, .rows_multiple = 16}, rows, 768,
       3072);
  show(library, {.name = "padded, scales at 16 bytes", .scale_a = 4, .scale_b = 12, .rows_multiple = 16}, rows, 768,
       3072);
  const int at_8 =
      show(library, {.name = "padded, scale of b at 8 bytes", .scale_b = 2, .rows_multiple = 16}, rows, 768, 3072);
  const int at_4 = show(library, {.name = "padded, scales at 4 bytes", .scale_a = 1, .scale_b = 3, .rows_multiple = 16},
                        rows, 768, 3072);
  std::printf("= work: exact rows %d, padded %d, scales at 8 bytes %d, at 4 %d of %d; layers %s%s\n", exact, padded,
              at_8, at_4, all, layers.c_str(), times.c_str());
}
