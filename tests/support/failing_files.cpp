// A library for LD_PRELOAD that makes the environment of a program fail:
//
//   BERT_HPC_FAIL_SYNC = PART           forcing a file whose path contains PART to the disk fails with EIO
//   BERT_HPC_FAIL_FOLDER_SYNC = END     the same for a folder whose path ends with END
//   BERT_HPC_SLOW_SYNC = PART=SECONDS   forcing such a file to the disk takes seconds
//   BERT_HPC_SHORT_WRITES = N           no write takes more than N bytes
//   BERT_HPC_FAIL_LOCKS                 no file can be locked (ENOLCK)
//   BERT_HPC_HOLD_SYNC = PART=FILE      forcing such a file to the disk ends once FILE is gone; FILE.reached
//                                       appears when it begins
//   BERT_HPC_CLOCK_JUMPS = N            the wall clock is N seconds late and early, alternately at each reading
//   BERT_HPC_CLOCK_AHEAD = FILE         all clocks are ahead by the number of seconds in FILE, once that exists
//   BERT_HPC_STEPS = FILE               the delay of the k-th step (debug.step_delay_seconds) ends once the number in
//                                       FILE is at least k
//   BERT_HPC_STALE = NAME=OTHER         files below a folder NAME are opened below OTHER, as on a rank with an outdated
//                                       view of a shared disk
//   BERT_HPC_HANG = FILE                while FILE exists, the main thread hangs when it next reads the clock
//   BERT_HPC_DIE_AT_REPLACING = END     the process dies when it is about to rename something over an existing file
//                                       whose path ends with END
//   BERT_HPC_HOLD_SIGKILL = FILE        SIGKILL is sent to other processes once FILE is gone
//   BERT_HPC_DROP_DATAGRAMS = FILE      while FILE exists, no datagram is sent (UDP over IPv4)
//   BERT_HPC_SLOW_SPACE = SECONDS       a query of a disk's free space takes that long
//   BERT_HPC_HOLD_SPACE = FILE          such a query ends once FILE is gone; FILE.reached appears when one begins
//   BERT_HPC_HOLD_OPEN = PART=FILE      opening a file whose path contains PART ends once FILE is gone; FILE.reached
//                                       appears when it begins
//   BERT_HPC_KEEP_FOLDERS = PART        folders whose path contains PART cannot be removed (ENOTEMPTY), as on NFS
//                                       while a file in them is open
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int file) {
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return readlink(link, path, sizeof path - 1) > 0 ? path : "";
}

bool path_contains(int file, const std::string& part) {
  return path_of(file).find(part) != std::string::npos;
}

bool is_to_fail(int file) {
  const char* part = std::getenv("BERT_HPC_FAIL_SYNC");
  if (part != nullptr && path_contains(file, part)) return true;
  const char* end = std::getenv("BERT_HPC_FAIL_FOLDER_SYNC");
  struct stat status {};
  return end != nullptr && fstat(file, &status) == 0 && S_ISDIR(status.st_mode) && path_of(file).ends_with(end);
}

/// What follows "PART=" in an environment variable, if the path contains PART; otherwise null.
const char* value_for(const std::string& path, const char* variable) {
  const char* rule = std::getenv(variable);
  const char* equals = rule == nullptr ? nullptr : std::strchr(rule, '=');
  return equals != nullptr && path.find(std::string(rule, equals)) != std::string::npos ? equals + 1 : nullptr;
}

void be_slow(int file) {
  if (const char* seconds = value_for(path_of(file), "BERT_HPC_SLOW_SYNC"))
    sleep(static_cast<unsigned>(std::atoi(seconds)));
}

/// Returns once `file` is gone. Creates FILE.reached if it has to wait. Without a file it returns at once.
void wait_for_end_of(const char* file) {
  if (file == nullptr || access(file, F_OK) != 0) return;
  const std::string reached = std::string(file) + ".reached";
  close(static_cast<int>(syscall(SYS_openat, AT_FDCWD, reached.c_str(), O_WRONLY | O_CREAT, 0600)));
  while (access(file, F_OK) == 0) usleep(10000);
}

long clock_error() {
  const char* jump = std::getenv("BERT_HPC_CLOCK_JUMPS");
  if (jump == nullptr) return 0;
  static std::atomic<unsigned> readings = 0;
  return readings++ % 2 == 0 ? std::atol(jump) : -std::atol(jump);
}

/// Number in the file that the environment variable names; `otherwise` if there is no such file or variable.
long number_in(const char* variable, long otherwise) {
  const char* path = std::getenv(variable);
  const int file = path == nullptr ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY));
  if (file < 0) return otherwise;
  char text[32] = {};
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  return bytes > 0 ? std::atol(text) : otherwise;
}

bool locks_fail() {
  return std::getenv("BERT_HPC_FAIL_LOCKS") != nullptr;
}

/// Seconds by which all clocks are ahead.
long lead() {
  static const bool may_be_ahead = std::getenv("BERT_HPC_CLOCK_AHEAD") != nullptr;
  return may_be_ahead ? number_in("BERT_HPC_CLOCK_AHEAD", 0) : 0;
}

std::string redirected(const char* path) {
  std::string result = path;
  const char* rule = std::getenv("BERT_HPC_STALE");
  const char* equals = rule == nullptr ? nullptr : std::strchr(rule, '=');
  if (equals == nullptr) return result;
  const std::string name(rule, equals);
  const std::size_t at = result.find(name);
  if (at != std::string::npos) result.replace(at, name.size(), equals + 1);
  return result;
}

std::size_t taken(std::size_t bytes) {
  const char* most = std::getenv("BERT_HPC_SHORT_WRITES");
  return most == nullptr ? bytes : std::min(bytes, static_cast<std::size_t>(std::atoll(most)));
}

/// Waits for the permission to send this signal.
void hold_signal(int number) {
  const char* file = std::getenv("BERT_HPC_HOLD_SIGKILL");
  while (number == SIGKILL && file != nullptr && access(file, F_OK) == 0) usleep(10000);
}

bool ends_with(const char* path, const char* end) {
  return end != nullptr && std::string_view(path).ends_with(end);
}

}  // namespace

extern "C" {

int kill(pid_t process, int number) noexcept {
  static auto* const real = next<int(pid_t, int)>("kill");
  if (process != getpid()) hold_signal(number);
  return real(process, number);
}

int killpg(pid_t group, int number) noexcept {
  return kill(-group, number);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  if (ends_with(to, std::getenv("BERT_HPC_DIE_AT_REPLACING")) && access(to, F_OK) == 0) kill(getpid(), SIGKILL);
  return real(from, to);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  be_slow(file);
  wait_for_end_of(value_for(path_of(file), "BERT_HPC_HOLD_SYNC"));
  if (!is_to_fail(file)) return real(file);
  errno = EIO;
  return -1;
}

int fdatasync(int file) {
  static auto* const real = next<int(int)>("fdatasync");
  if (!is_to_fail(file)) return real(file);
  errno = EIO;
  return -1;
}

int remove(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("remove");
  const char* part = std::getenv("BERT_HPC_KEEP_FOLDERS");
  struct stat status {};
  const bool stays = part != nullptr && std::strstr(path, part) != nullptr && stat(path, &status) == 0;
  if (!stays || !S_ISDIR(status.st_mode)) return real(path);
  errno = ENOTEMPTY;
  return -1;
}

ssize_t sendto(int socket, const void* data, std::size_t bytes, int flags, const sockaddr* to, socklen_t length) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)>("sendto");
  const char* flag = std::getenv("BERT_HPC_DROP_DATAGRAMS");
  int type = 0;
  socklen_t size = sizeof type;
  const bool datagram = flag != nullptr && to != nullptr && to->sa_family == AF_INET &&
                        getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
  if (datagram && access(flag, F_OK) == 0) return static_cast<ssize_t>(bytes);
  return real(socket, data, bytes, flags, to, length);
}

int statvfs(const char* path, struct statvfs* status) noexcept {
  static auto* const real = next<int(const char*, struct statvfs*)>("statvfs");
  if (const char* seconds = std::getenv("BERT_HPC_SLOW_SPACE")) sleep(static_cast<unsigned>(std::atoi(seconds)));
  wait_for_end_of(std::getenv("BERT_HPC_HOLD_SPACE"));
  return real(path, status);
}

int flock(int file, int operation) {
  static auto* const real = next<int(int, int)>("flock");
  if (!locks_fail()) return real(file, operation);
  errno = ENOLCK;
  return -1;
}

int fcntl(int file, int command, ...) {
  static auto* const real = next<int(int, int, ...)>("fcntl");
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);  // a pointer or a number, passed on unchanged
  va_end(arguments);
  const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (!locks || !locks_fail()) return real(file, command, argument);
  errno = ENOLCK;
  return -1;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const char* const hang = std::getenv("BERT_HPC_HANG");
  while (hang != nullptr && gettid() == getpid() && access(hang, F_OK) == 0) usleep(10000);
  static auto* const real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += clock_error();
  if (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) time->tv_sec += lead();
  return result;
}

int nanosleep(const timespec* time, timespec* left) {
  static auto* const real = next<int(const timespec*, timespec*)>("nanosleep");
  static const bool held = std::getenv("BERT_HPC_STEPS") != nullptr;
  static long steps = 0;  // of the main thread alone
  if (!held || gettid() != getpid()) return real(time, left);
  ++steps;
  constexpr timespec pause{0, 5000000};
  while (number_in("BERT_HPC_STEPS", 0) < steps) real(&pause, nullptr);
  return 0;
}

int gettimeofday(timeval* __restrict time, void* __restrict zone) noexcept {
  static auto* const real = next<int(timeval*, void*)>("gettimeofday");
  const int result = real(time, zone);
  time->tv_sec += clock_error() + lead();
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  va_end(arguments);
  wait_for_end_of(value_for(path, "BERT_HPC_HOLD_OPEN"));
  return real(redirected(path).c_str(), flags, mode);
}

int open64(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  va_end(arguments);
  wait_for_end_of(value_for(path, "BERT_HPC_HOLD_OPEN"));
  return real(redirected(path).c_str(), flags, mode);
}

ssize_t write(int file, const void* data, std::size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
  return real(file, data, taken(bytes));
}

ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return real(file, data, taken(bytes), offset);
}

ssize_t pwrite64(int file, const void* data, std::size_t bytes, off64_t offset) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off64_t)>("pwrite64");
  return real(file, data, taken(bytes), offset);
}
}
