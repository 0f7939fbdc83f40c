// A program that is started without standard input, output or error (as by `>&-`) would get those numbers for the next
// files it opens, and write its messages into them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace bert_hpc::core {

/// First thing in main: what is closed leads to /dev/null from here on.
inline void keep_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // The lowest free number is the one that was found closed.
    if (::fcntl(stream, F_GETFD) < 0) static_cast<void>(!::open("/dev/null", O_RDWR));
  }
}

}  // namespace bert_hpc::core
