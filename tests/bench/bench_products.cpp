// GFLOP/s of the products of linear layers by every back end of this build, on the shapes that training BERT-class
// models asks for. The back ends take turns within each round and the best round counts, so that a busy machine slows
// all of them equally.
//
// With --compute bf16 or fp16 activations are of that type, as in training with precision.compute, and the libraries,
// which have fp32 only, are left out.
//
// Usage: bench_products [--seconds PER_CASE] [--threads "1 2"] [--shapes tiny|mini|base|all] [--compute
// fp32|tf32|bf16|fp16]
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/matrix_product.hpp"
#include "support/type_named.hpp"

using namespace bert_hpc;
using core::DataType;
using core::Matrix;
using core::Tensor;
using ops::MatrixProduct;
using ops::Write;

namespace {

struct Shape {
  const char* group;
  std::int64_t rows, in, out;
};

const Shape shapes[] = {
    {"tiny", 100, 128, 128},   {"tiny", 544, 128, 128},   {"tiny", 544, 128, 384},  {"tiny", 544, 128, 512},
    {"tiny", 544, 512, 128},   {"tiny", 2000, 128, 512},  {"mini", 544, 256, 1024}, {"mini", 1320, 384, 384},
    {"mini", 1320, 384, 1536}, {"mini", 1320, 1536, 384}, {"base", 1320, 768, 768}, {"base", 4096, 768, 768},
    {"base", 4096, 768, 3072}, {"base", 4096, 3072, 768},
};

struct Options {
  double seconds = 0.3;  // per case and back end
  std::string threads = "1 2";
  std::string group = "all";
  test::Compute compute{DataType::fp32};
};

void fill(core::Buffer<float>& buffer) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < buffer.size(); ++i) buffer[i] = normal(engine);
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Activations of the type that products compute in.
class Stored {
 public:
  Stored(DataType type, std::int64_t size) : type_(type), values_(size * core::bytes_of(type) / 4 + 1) {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    core::with_type(type, [&]<class T>() {
      T* to = reinterpret_cast<T*>(values_.data());
      for (std::int64_t i = 0; i < size; ++i) to[i] = T(normal(engine));
    });
  }
  Matrix matrix(std::int64_t rows, std::int64_t columns) { return {values_.data(), rows, columns, columns, type_}; }

 private:
  DataType type_;
  core::Buffer<float> values_;
};

// The products of one layer, each on operands that all back ends share.
struct Case {
  Case(const Shape& s, DataType compute)
      : shape(s),
        x_values(compute, s.rows * s.in),
        y_values(compute, s.rows * s.out),
        d_x_values(compute, s.rows * s.in),
        pre_values(compute, s.rows * std::max(s.in, s.out)),
        w_values(s.out * s.in),
        d_w_values(s.out * s.in),
        bias(s.out),
        d_bias(s.out) {
    for (auto* b : {&w_values, &bias}) fill(*b);
  }
  using Form = std::pair<const char*, std::function<void(MatrixProduct&)>>;
  std::vector<Form> forms() {
    const Matrix x = x_values.matrix(shape.rows, shape.in), y = y_values.matrix(shape.rows, shape.out);
    const Matrix d_x = d_x_values.matrix(shape.rows, shape.in);
    const Matrix pre_out = pre_values.matrix(shape.rows, shape.out), pre_in = pre_values.matrix(shape.rows, shape.in);
    const Tensor<float> w(w_values.data(), shape.out, shape.in), d_w(d_w_values.data(), shape.out, shape.in);
    return {
        {"forward", [=, this](MatrixProduct& p) { p.forward(x, w, bias.data(), y); }},
        {"forward+gelu",
         [=, this](MatrixProduct& p) {
           p.forward(x, w, {bias.data(), ops::Activation::gelu, pre_out}, y);
         }},
        {"input", [=](MatrixProduct& p) { p.backward_input(y, w, d_x, Write::replace); }},
        {"input+gelu'",
         [=](MatrixProduct& p) {
           p.backward_input(y, w, d_x, {ops::Activation::gelu, pre_in});
         }},
        {"weight", [=, this](MatrixProduct& p) { p.backward_weight(y, x, d_w, d_bias.data(), Write::accumulate); }},
    };
  }
  Shape shape;
  Stored x_values, y_values, d_x_values, pre_values;
  core::Buffer<float> w_values, d_w_values, bias, d_bias;
};

void run(const Options& options, int threads) {
  const core::DeviceRuntime runtime(threads);
  omp_set_num_threads(threads);
  std::vector<std::unique_ptr<MatrixProduct>> products;
  for (const char* kind : {"native", "onednn", "blas"}) {
    try {
      products.push_back(
          ops::make_matrix_product(kind, {.compute = options.compute.type, .tf32 = options.compute.tf32}));
    } catch (const core::Error&) {
    }
  }
  std::printf("%d thread%s, %s, GFLOP/s\n%-6s %5s %5s %5s  %-13s", threads, threads == 1 ? "" : "s",
              options.compute.name().c_str(), "group", "rows", "in", "out", "product");
  for (const auto& p : products) std::printf(" %18s", p->name().c_str());
  std::printf("  first / best other\n");
  for (const Shape& shape : shapes) {
    if (options.group != "all" && options.group != shape.group) continue;
    Case problem(shape, options.compute.type);
    const double work = 2e-9 * static_cast<double>(shape.rows * shape.in * shape.out);
    for (const auto& [name, form] : problem.forms()) {
      std::vector<double> best(products.size(), 1e9);
      const int repeats = std::max(1, static_cast<int>(0.2 / work));
      const double deadline = options.seconds * static_cast<double>(products.size());
      double spent = 0;
      for (int round = 0; round < 3 || spent < deadline; ++round) {
        for (std::size_t i = 0; i < products.size(); ++i) {
          if (round == 0) products[i]->reserve({shape.rows, shape.in, shape.out});
          const double t = seconds_of([&, &f = form] {
            for (int r = 0; r < repeats; ++r) f(*products[i]);
          });
          spent += t;
          if (round > 0) best[i] = std::min(best[i], t / repeats);
        }
      }
      std::printf("%-6s %5ld %5ld %5ld  %-13s", shape.group, long(shape.rows), long(shape.in), long(shape.out), name);
      for (double t : best) std::printf(" %18.1f", work / t);
      const double other = best.size() > 1 ? *std::min_element(best.begin() + 1, best.end()) : best[0];
      std::printf("  %.2f\n", other / best[0]);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) options.seconds = std::stod(argv[i + 1]);
    if (std::strcmp(argv[i], "--threads") == 0) options.threads = argv[i + 1];
    if (std::strcmp(argv[i], "--shapes") == 0) options.group = argv[i + 1];
    if (std::strcmp(argv[i], "--compute") == 0) options.compute = test::compute_named(argv[i + 1]);
  }
  // A process per number of threads: the device layer starts once per process.
  std::istringstream counts(options.threads);
  for (int threads; counts >> threads;) {
    const pid_t child = fork();
    if (child == 0) {
      run(options, threads);
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) return 1;
  }
  return 0;
}
