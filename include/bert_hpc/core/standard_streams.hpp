// If a program starts without standard input, output or error (as with `>&-`), the next files it opens get those
// descriptor numbers, and its messages would be written into them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace bert_hpc::core {

/// Opens closed standard streams on /dev/null. Call it first in main.
inline void keep_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // open() returns the lowest free number, which is the closed stream.
    if (::fcntl(stream, F_GETFD) < 0) static_cast<void>(!::open("/dev/null", O_RDWR));
  }
}

}  // namespace bert_hpc::core
