// A disk that fills up (a small file system, mounted for one process) at many points of a file's making. Each time in a
// child process, as the HDF5 library's clean-up at exit is part of what must go well: without io/hdf5/salvage.cpp it
// crashes or hangs there, which replaces the exit status.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>

#include "../src/io/event_file.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/text_file.hpp"
#include "event_reader.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryDirectory;

extern "C" int H5close();

namespace {

constexpr int cannot_mount = 77;

/// A file system of so many bytes over `directory`, for this process alone.
bool mount_small(const std::string& directory, long bytes) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  const std::string options = "size=" + std::to_string(bytes);
  return mount("none", directory.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

/// Runs `action` in a child whose `directory` lies on a disk of so many bytes; its error's code, 0 without one, −1
/// after a crash or a hang. The child ends the library as exit() would, and leaves by _exit: other libraries' clean-up
/// does not survive fork.
template <class Action>
int in_child_on_disk(const std::string& directory, long bytes, const Action& action) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::signal(SIGSEGV, SIG_DFL);
    std::signal(SIGABRT, SIG_DFL);
    if (!mount_small(directory, bytes)) _exit(cannot_mount);
    int code = 0;
    try {
      action();
    } catch (const bert_hpc::core::Error& error) {
      code = static_cast<int>(error.code());
    }
    H5close();
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == cannot_mount) SKIP("no user namespaces here, so no small disk can be mounted");
  return code;
}

/// Numbers that do not compress.
std::vector<float> noise(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 2654435761u) % 1000003u) * 1.37f;
  return values;
}

constexpr int files = static_cast<int>(ExitCode::files);

}  // namespace

TEST_CASE("a full disk while predictions are written is one error and a clean exit") {
  const TemporaryDirectory directory;
  const std::string path = directory / "predictions.h5";
  const auto write = [&] {
    const std::vector<float> values = noise(100000);
    const std::vector<std::int64_t> index(values.begin(), values.end());
    const std::vector<PredictionColumn> columns = {{"label", values}, {"prediction", values}};
    PredictionsWriter writer(path, {"regression", {}, {}}, columns);
    writer.append(index, columns);
    writer.close();
  };
  for (const long bytes : {4096, 8192, 20480, 200704, 401408}) {
    INFO("limit " << bytes);
    CHECK(in_child_on_disk(directory.path(), bytes, write) == files);
  }
  CHECK(in_child_on_disk(directory.path(), 1 << 24, write) == 0);
}

TEST_CASE("predictions that are given up as another file finds the disk full are removed") {
  const TemporaryDirectory directory;
  const auto give_up = [&] {
    TextFile other(directory / "other");  // removed last: the disk stays full until then
    const std::vector<float> values = noise(20000);
    const std::vector<std::int64_t> index(values.begin(), values.end());
    const std::vector<PredictionColumn> columns = {{"label", values}, {"prediction", values}};
    PredictionsWriter writer(directory / "predictions.h5", {"regression", {}, {}}, columns);
    writer.append(index, columns);
    for (;;) other.write(std::string(4096, 'x'));  // throws
  };
  for (const long bytes : {20480, 200704, 401408, 1 << 20}) {
    INFO("limit " << bytes);
    CHECK(in_child_on_disk(directory.path(), bytes, give_up) == files);
  }
}

TEST_CASE("a full disk while a shard is written is one error and a clean exit") {
  const TemporaryDirectory directory;
  const auto write = [&] {
    Hdf5File file = Hdf5File::create(directory / "s.h5", ExitCode::files, 512);
    Appender<float> tokens(file, "input_ids", {.chunk_rows = 4096, .gzip = 1, .shuffle = true, .fletcher32 = true});
    file.write("offsets", noise(3000));
    file.write_text("label_names", std::vector<std::string>(200, "a name of some length"));
    file.write("labels", noise(3000), {}, {.chunk_rows = 500, .gzip = 1});
    tokens.append(noise(30000));
    tokens.finish();
    file.write_attribute("/", "count", std::int64_t{30000});
    file.close();
  };
  for (long bytes = 4096; bytes < 100000; bytes += 4096) {
    INFO("limit " << bytes);
    CHECK(in_child_on_disk(directory.path(), bytes, write) == files);
  }
  CHECK(in_child_on_disk(directory.path(), 1 << 24, write) == 0);
}

TEST_CASE("a file that failed once stays failed") {
  const TemporaryDirectory directory;
  const auto write = [&] {
    Hdf5File file = Hdf5File::create(directory / "s.h5", ExitCode::files);
    try {
      file.write("x", noise(30000));
      file.flush();
    } catch (const bert_hpc::core::Error&) {
      file.close();  // must throw again
    }
  };
  CHECK(in_child_on_disk(directory.path(), 20480, write) == files);
}

TEST_CASE("a full disk while metrics and event files are written is one error and a clean exit") {
  const TemporaryDirectory directory;
  const auto write = [&] {
    MetricsWriter writer(directory.path(), {}, {.interval = 0, .resume_step = -1, .events = true});
    for (std::int64_t step = 1; step <= 300; ++step) {
      writer.record_step({step, 0.5, 0.25, 1e-3, 0.5, 64, 1100, 0.25});
      if (step % 20 == 0) writer.snapshot();
    }
    writer.close();
  };
  for (const long bytes : {4096, 8192, 20480, 81920, 102400}) {
    INFO("limit " << bytes);
    CHECK(in_child_on_disk(directory.path(), bytes, write) == files);
  }
  CHECK(in_child_on_disk(directory.path(), 1 << 24, write) == 0);
}

TEST_CASE("points that an event file could not store do not damage later points") {
  const TemporaryDirectory directory;
  const std::string filler = directory / "filler", folder = directory / "tensorboard";
  const auto write = [&] {
    detail::EventFile file(folder, 1.0);
    file.append(detail::encode_event(1.0, 1, {{"a", 1.0}}));
    bert_hpc::test::write_bytes(filler, std::string(1 << 20, 'x'));  // as much as there is room for
    bool failed = false;
    try {
      file.append(std::string(100000, 'x'));
    } catch (const bert_hpc::core::Error& error) {
      failed = error.code() == ExitCode::files && std::string(error.what()).find("tfevents") != std::string::npos;
    }
    std::filesystem::remove(filler);
    file.append(detail::encode_event(1.0, 2, {{"a", 2.0}}));
    const std::string path = std::filesystem::directory_iterator(folder)->path();
    const auto curves = bert_hpc::test::curves_of(bert_hpc::test::file_bytes(path));
    const bool whole = curves.at("a").size() == 2 && curves.at("a")[1].value == 2.0f;
    if (!failed || !whole) throw bert_hpc::core::Error(ExitCode::numerical, "");
  };
  CHECK(in_child_on_disk(directory.path(), 20480, write) == 0);
}
