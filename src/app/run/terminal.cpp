#include "app/run/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace bert_hpc::app {
namespace {

std::string target_of(const std::string& link) {
  char target[256] = "";
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "";
}

pid_t parent_of(pid_t process) {
  // "PID (NAME) STATE PARENT …"; the name may contain anything, so search for the last closing parenthesis.
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 4 > text.size() ? 0 : std::atoi(text.c_str() + name_end + 4);
}

/// Finds the launcher: scripts between it and the rank share the rank's output, while the launcher's own differs.
pid_t launcher_of(pid_t process) {
  const std::string own = target_of("/proc/self/fd/1");
  while (process > 1 && target_of("/proc/" + std::to_string(process) + "/fd/1") == own) process = parent_of(process);
  return process;
}

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
  const std::string output = "/proc/" + std::to_string(launcher_of(getppid())) + "/fd/1";
  const int launcher = open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (launcher < 0) return terminal;
  terminal.present = isatty(launcher) == 1;
  terminal.columns = columns_of(launcher);
  close(launcher);
  return terminal;
}

}  // namespace bert_hpc::app
