// Copies between host and device, and the guard: run as it is and once more with BERT_HPC_GUARD_DEVICE_MEMORY=1.
#include "bert_hpc/core/device_memory.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <functional>

#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;

namespace {

/// Runs `body` in a child process. True if a forbidden access to memory kills the child.
bool crashes(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // Catch2 would report it
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace

TEST_CASE("data copied to the device read back unchanged, and fresh memory is zero") {
  const core::Buffer<int> device(1000), other(1000);
  std::vector<int> host(1000, 7), back(1000, 1);
  core::copy_to_host(device.data(), back.data(), 4000);
  CHECK(back == std::vector<int>(1000));
  core::copy_to_device(host.data(), device.data(), 4000);
  core::copy_on_device(device.data(), other.data(), 4000);
  core::fill_on_device(other.data(), 0, 4);
  core::copy_to_host(other.data(), back.data(), 4000);
  host[0] = 0;
  CHECK(back == host);
}

TEST_CASE("memory that was given back is zero when it is given again") {
  for (int round = 0; round < 3; ++round) {
    const core::Buffer<unsigned char> device(5000), host(5000, core::MemoryKind::host);
    std::vector<unsigned char> content(5000, 1);
    core::copy_to_host(device.data(), content.data(), 5000);
    CHECK(content == std::vector<unsigned char>(5000));
    CHECK(host[4999] == 0);
    core::fill_on_device(device.data(), 9, 5000);
    host[4999] = 9;
  }
}

TEST_CASE("a mirrored array and stand-ins for device memory carry content both ways") {
  const core::MirroredArray<double> array(10);
  array.host()[3] = 2.5;
  array.to_device(10);
  core::wait_for_kernels();  // until then the copy may read later writes
  array.host()[3] = core::host_sees_device_memory() ? 2.5 : 0.0;
  CHECK(array.to_host(10)[3] == 2.5);
  const core::Buffer<float> device(4);
  const std::span<float> all(device.data(), 4);
  std::vector<float> staging;
  const std::span<float> work = core::host_side(all, staging);
  work[2] = 1.5f;
  core::copy_to_device<float>(work, all);
  CHECK(core::on_host<float>(all, staging)[2] == 1.5f);
  CHECK(staging.empty() == core::host_sees_device_memory());
}

TEST_CASE("the guard keeps the host from device memory, and host memory from kernels") {
  if (!core::device_memory_is_guarded()) SKIP("BERT_HPC_GUARD_DEVICE_MEMORY is not set");
  const core::Buffer<int> device(10), host(10, core::MemoryKind::host);
  CHECK(crashes([&] { device[0] = 1; }));
  CHECK_FALSE(crashes([&] { host[0] = 1; }));
  {
    const core::DeviceAccess access;
    const core::DeviceAccess again;
    CHECK_FALSE(crashes([&] { device[9] = 1; }));
    device[9] = 4;
  }
  CHECK(crashes([&] { device[9] = 1; }));
  CHECK(core::transport_address(device.data())[9] == 4);
  std::vector<int> own(10);
  struct Body {
    std::int64_t count;
    const int* data;
  };
  const Body good{10, device.data()}, pinned{10, host.data()}, bad{10, own.data()};
  core::require_device_operands(&good, sizeof good, "good");
  core::require_device_operands(&pinned, sizeof pinned, "pinned");
  CHECK_THROWS_AS(core::require_device_operands(&bad, sizeof bad, "bad"), core::Error);
  CHECK_THROWS_AS(core::require_device_memory(own.data(), "a copy"), core::Error);
}

TEST_CASE("the guard forbids writes to the source of a started copy until a caller has waited for the copy") {
  if (!core::device_memory_is_guarded()) SKIP("BERT_HPC_GUARD_DEVICE_MEMORY is not set");
  const core::Buffer<int> device(10);
  const core::Buffer<int> first(10, core::MemoryKind::host), second(10, core::MemoryKind::host);
  const auto writes = [](const core::Buffer<int>& host) { return !crashes([&] { host[0] = 1; }); };
  core::DeviceMark mark;
  mark.wait();  // never set: returns at once
  core::start_copy_to_device(first.data(), device.data(), 40);
  mark.set();
  core::start_copy_to_device(second.data(), device.data(), 40);
  CHECK_FALSE(writes(first));
  CHECK(first[0] == 0);
  mark.wait();
  CHECK(writes(first));
  CHECK_FALSE(writes(second));
  core::wait_for_kernels();
  CHECK(writes(second));
  core::start_copy_to_device(first.data(), device.data(), 40);
  int back[10];
  core::copy_to_host(device.data(), back, 40);  // waits for the copies started before
  CHECK(writes(first));
}

TEST_CASE("ranks that share a GPU are reported with a remedy") {
  CHECK(core::shared_device_problem({"", "", ""}).empty());
  CHECK(core::shared_device_problem({"GPU-a", "GPU-b"}).empty());
  const std::string problem = core::shared_device_problem({"GPU-a", "GPU-b", "GPU-a"});
  CHECK(problem.starts_with("ranks 0 and 2 would use one GPU (GPU-a)"));
  CHECK(problem.find("--gpus-per-node") != std::string::npos);
  CHECK(problem.find("allow_shared_devices = true") != std::string::npos);
}
