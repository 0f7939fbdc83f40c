// Finds the owner of a fault. A process that crashes, takes too long or too much memory walks its call stack and
// reports whether a function of the HDF5 library or of our code comes first, through memory that its parent shares.
// Functions of the C and C++ libraries and of the sanitizers count as their caller.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace judging {

enum class Owner { unknown, library, ours };
struct Report {
  std::int64_t input, accepted, refused;
  Owner owner;     ///< of the function that ended the process
  char text[512];  ///< the event, and the functions of its owner
};

constexpr int exit_status = 99;
constexpr std::size_t max_at_once = std::size_t{128} << 20, most_together = std::size_t{512} << 20;
constexpr int max_seconds = 1;  // of the processor; a reading takes milliseconds

struct Function {
  std::uintptr_t begin, end;
  std::string name;
};

/// This program's functions, those that no other object may call too.
inline std::vector<Function> own_functions() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), {}};
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(program.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(program.data() + head->e_shoff);
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&own_functions), &info);
  const std::uintptr_t base = head->e_type == ET_DYN ? reinterpret_cast<std::uintptr_t>(info.dli_fbase) : 0;
  std::vector<Function> functions;
  for (int s = 0; s < head->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char* names = program.data() + sections[sections[s].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(program.data() + sections[s].sh_offset);
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_size == 0) continue;
      const std::uintptr_t begin = base + symbols[i].st_value;
      functions.push_back({begin, begin + symbols[i].st_size, names + symbols[i].st_name});
    }
  }
  std::sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return functions;
}

inline std::vector<Function> functions;
inline Report* report = nullptr;
inline std::size_t allocated = 0;  ///< since the input began, including freed memory

inline const char* own_name(std::uintptr_t address) {
  const auto next = std::upper_bound(functions.begin(), functions.end(), address,
                                     [](std::uintptr_t a, const Function& f) { return a < f.begin; });
  return next != functions.begin() && address < (next - 1)->end ? (next - 1)->name.c_str() : nullptr;
}

inline bool is_ours(const char* name) {
  return std::strstr(name, "8bert_hpc") != nullptr || std::strstr(name, "4fuzz") != nullptr ||
         std::strstr(name, "_GLOBAL__N_1") != nullptr;
}

/// Writes the report and ends the process.
[[noreturn]] inline void judge(const char* what) {
  void* frames[64];
  const int depth = backtrace(frames, 64);
  Owner owner = Owner::unknown;
  std::string text = what;
  int names = 0;
  for (int i = 0; i < depth && names < 4; ++i) {
    Dl_info info{};
    const auto address = reinterpret_cast<std::uintptr_t>(frames[i]) - 1;
    const bool known = dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_fname != nullptr;
    const bool library = known && std::strstr(info.dli_fname, "libhdf5") != nullptr;
    const char* name = library ? info.dli_sname : own_name(address);
    const bool ours = !library && name != nullptr && is_ours(name);
    if (!library && !ours) continue;
    if (owner == Owner::unknown) owner = library ? Owner::library : Owner::ours;
    if ((owner == Owner::library) != library) break;
    text += names++ == 0 ? " in " : " < ";
    text += name != nullptr ? name : "?";
  }
  std::snprintf(report->text, sizeof report->text, "%s", text.c_str());
  report->owner = owner;
  _exit(exit_status);
}

inline void on_signal(int number) {
  // A second fault, inside judge() itself, ends the process without a report.
  std::signal(number, SIG_DFL);
  judge(number == SIGPROF ? "too long" : strsignal(number));
}

inline void on_allocation(const volatile void*, std::size_t bytes) {
  static thread_local bool inside = false;
  if (inside) return;
  inside = true;
  allocated += bytes;
  const bool much =
      allocated > most_together && (allocated = 0, __sanitizer_get_current_allocated_bytes() > most_together);
  if (bytes > max_at_once || much) judge(much ? "memory, all together" : "memory, at once");
  inside = false;
}

inline void on_free(const volatile void*) {}

/// Once, before the children.
inline void prepare() {
  functions = own_functions();
  report =
      static_cast<Report*>(mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads its libraries now
}

/// Called in a child: from now on the child reports the cause of its end.
inline void watch() {
  static char stack[1 << 18];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) sigaction(number, &action, nullptr);
  __sanitizer_install_malloc_and_free_hooks(on_allocation, on_free);
}

inline void begin_input() {
  allocated = 0;
  const itimerval limit{{0, 0}, {max_seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

}  // namespace judging
