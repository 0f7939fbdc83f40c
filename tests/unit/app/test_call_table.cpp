// What BERT_HPC_COUNT_LAUNCHES=1 prints.
#include "app/report/call_table.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace bert_hpc;
using core::DeviceCall;

TEST_CASE("the table of calls has a row for each section, their sum, and a line for each name") {
  core::CallCount count;
  count.add(DeviceCall::fill, "zero");
  count.enter("forward");
  for (int i = 0; i < 1234; ++i) count.add(DeviceCall::kernel, "norm");
  count.add(DeviceCall::product, "gemm");
  CHECK(app::call_table(count, 12) ==
        "Calls of the device in step 12, rank 0:\n"
        "  section           kernels  products  copies  fills  waits  collectives\n"
        "  between sections        0         0       0      1      0            0\n"
        "  forward             1,234         1       0      0      0            0\n"
        "  all                 1,234         1       0      1      0            0\n"
        "        1  between sections, fills: zero\n"
        "    1,234  forward, kernels: norm\n"
        "        1  forward, products: gemm");
}
