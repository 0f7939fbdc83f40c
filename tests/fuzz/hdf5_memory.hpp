// Makes HDF5 keep freed memory for the next use. By default HDF5 returns large blocks at once, and with
// AddressSanitizer each of them is mapped again for every input: most of a fuzzer's time. The library itself is not
// instrumented, so no check is lost.
#pragma once

#include <hdf5.h>

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return H5set_free_list_limits(-1, -1, -1, -1, -1, -1) < 0;
}
