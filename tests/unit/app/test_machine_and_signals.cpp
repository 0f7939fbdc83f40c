#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "app/run/machine.hpp"
#include "app/run/signal_listener.hpp"
#include "app/run/stop_request.hpp"

using namespace bert_hpc::app;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("core lists are read and written") {
  using Cores = std::vector<int>;
  CHECK(parse_core_list("0-3,8\n") == Cores{0, 1, 2, 3, 8});
  CHECK(parse_core_list("") == Cores{});
  CHECK(parse_core_list("x") == Cores{});
  CHECK(parse_core_list("5-2") == Cores{});
  CHECK(parse_core_list("0-99999999999") == Cores{});
  CHECK(format_core_list({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(format_core_list({7}) == "7");
  CHECK(format_core_list({}).empty());
}

TEST_CASE("NUMA nodes come from the system's folder") {
  const auto folder = std::filesystem::temp_directory_path() / ("bert_hpc_numa_" + std::to_string(getpid()));
  for (const auto& [node, cores] : {std::pair{"node0", "0-3,8-11"}, {"node1", "4-7,12-15"}, {"nodes", "0"}}) {
    std::filesystem::create_directories(folder / node);
    std::ofstream(folder / node / "cpulist") << cores << '\n';
  }
  CHECK(numa_nodes_of({0, 1}, folder.string()) == std::vector<int>{0});
  CHECK(numa_nodes_of({3, 12}, folder.string()) == std::vector<int>{0, 1});
  CHECK(numa_nodes_of({99}, folder.string()).empty());
  CHECK(numa_nodes_of({0}, (folder / "gone").string()).empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("the system's texts are read") {
  const ProcessMemory memory = memory_from_status("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n", "");
  CHECK(memory.resident == 1024 * 1024);
  CHECK(memory.peak_resident == 2048 * 1024);
  const ProcessMemory shares = memory_from_status("VmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\nRssShmem:\t 100 kB\n",
                                                  "Pss:  70 kB\nPss_Shmem:  60 kB\n");
  CHECK(shares.resident == 984 * 1024);  // 40 of the 100 are others'
  CHECK(shares.peak_resident == 2008 * 1024);
  CHECK(memory_from_status("", "").resident == 0);
  const std::string cpuinfo =
      "model\t\t: 17\nmodel name\t: Some Processor\nflags\t\t: fpu avx2 fma avx512f avx512_bf16\n";
  CHECK(processor_from_cpuinfo(cpuinfo) == "Some Processor");
  CHECK(instruction_sets_from_cpuinfo(cpuinfo) == "AVX2, FMA, AVX-512, AVX-512 BF16");
  CHECK(inspect_machine().cores.size() >= 1);
  CHECK(process_memory().peak_resident >= process_memory().resident / 2);
}

TEST_CASE("signals set flags, and do not end a process that is leaving") {
  {
    StopRequest request;
    CHECK(!request.stop());
    CHECK(request.signal() == 0);
    CHECK(!request.take_checkpoint());
    raise(SIGUSR2);
    CHECK(request.take_checkpoint());
    CHECK(!request.take_checkpoint());
    CHECK(!request.stop());
    raise(SIGUSR1);
    raise(SIGTERM);
    raise(SIGTERM);
    CHECK(request.stop());
    CHECK(request.signal() == SIGUSR1);
    CHECK(stop_reason(request.signal()) == "on SIGUSR1");
    CHECK(stop_reason(0) == "before the wall-time limit");
    CHECK(stop_reason(SIGUSR1, false, "SIGHUP") == "on SIGHUP");
    CHECK(stop_reason(SIGTERM, false, "SIGHUP") == "on SIGTERM");
    CHECK(stop_reason(SIGTERM, true) == "because mpirun ends the run (Ctrl-C, SIGTERM or timeout)");
  }
  CHECK(!StopRequest().stop());
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    raise(number);  // would end the program
    CHECK(std::signal(number, SIG_DFL) == SIG_IGN);
  }
}

TEST_CASE("mpirun's kill interval is one second unless it is set") {
  const auto interval = [](const std::string& rank, const std::string& timeout) {
    return mpirun_kill_interval([&](const char* name) {
      if (std::string_view(name) == "OMPI_COMM_WORLD_RANK") return rank;
      CHECK(std::string_view(name) == "OMPI_MCA_odls_base_sigkill_timeout");
      return timeout;
    });
  };
  CHECK(interval({}, "30") == 0);
  CHECK(interval("1", {}) == 1);
  CHECK(interval("1", "30") == 30);
}

TEST_CASE("SIGTERM soon after SIGCONT comes from mpirun") {
  for (const double interval : {0.0, 1.0}) {
    StopRequest request(interval);
    CHECK_FALSE(request.is_by_launcher());
    if (interval > 0) raise(SIGCONT);
    raise(SIGTERM);
    CHECK(request.is_by_launcher() == (interval > 0));
  }
  StopRequest request(1);
  raise(SIGTERM);  // of another process
  raise(SIGCONT);
  raise(SIGTERM);
  CHECK_FALSE(request.is_by_launcher());
}

TEST_CASE("a notice names the signal and its consequence") {
  CHECK(signal_notice(SIGUSR1, 1, 10, true) ==
        "SIGUSR1 received: writing a checkpoint after this step, then exiting with status 75");
  CHECK(signal_notice(SIGTERM, 0, 10, true) ==
        "SIGTERM received: writing a checkpoint after this step, then exiting with status 75");
  CHECK_THAT(signal_notice(SIGTERM, 1, 10, true), ContainsSubstring("kill all ranks 1 s after it, before step 11"));
  CHECK_THAT(signal_notice(SIGCONT, 1, 1234, true),
             ContainsSubstring("then kills all ranks in 2 s. Writing a checkpoint of step 1,234 now."));
  CHECK(signal_notice(SIGINT, 0, 0, false) == "SIGINT (Ctrl-C) received: stopping");
  CHECK(signal_notice(SIGUSR1, 1, 10, true, "SIGINT (Ctrl-C)") ==
        "SIGINT (Ctrl-C) received: writing a checkpoint after this step, then exiting with status 75");
}

TEST_CASE("a listener notices each signal at once, and acts urgently only under mpirun") {
  for (const double interval : {0.0, 1.0}) {
    StopRequest requests(interval);
    std::atomic<int> heard = 0, urgent = 0;
    raise(SIGUSR2);  // before there is a listener
    {
      SignalListener listener(requests, [&](int) { ++heard; });
      listener.on_urgent([&] { ++urgent; });
      raise(SIGTERM);
      while (heard < 2) std::this_thread::yield();
      if (interval > 0) raise(SIGCONT);  // requests no stop by itself, and does not end the process
      while (heard < 2 + interval) std::this_thread::yield();
    }
    CHECK(urgent == 2 * interval);
    CHECK(requests.stop());
  }
}

TEST_CASE("after end_at_once() a request to stop ends the process, an earlier one too") {
  for (const bool earlier : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      StopRequest request;
      if (earlier) raise(SIGTERM);
      request.end_at_once();
      raise(SIGUSR2);  // never ends it
      if (!earlier) raise(SIGTERM);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGTERM);
  }
}
