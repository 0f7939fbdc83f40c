#include "bert_hpc/app/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace bert_hpc::app {
namespace {

int columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

Terminal inspect_terminal() {
  Terminal terminal;
  if (const char* name = std::getenv("TERM")) terminal.name = name;
  if (isatty(STDOUT_FILENO) != 1) return terminal;
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) {
    terminal.present = true;
    terminal.columns = columns_of(STDOUT_FILENO);
    return terminal;
  }
  const std::string output = "/proc/" + std::to_string(getppid()) + "/fd/1";
  const int launcher = open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (launcher < 0) return terminal;
  terminal.present = isatty(launcher) == 1;
  terminal.columns = columns_of(launcher);
  close(launcher);
  return terminal;
}

}  // namespace bert_hpc::app
