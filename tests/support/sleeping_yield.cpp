// A library for LD_PRELOAD whose sched_yield() sleeps for a moment. Ranks that wait for a message yield their core
// again and again. Where ranks outnumber cores, as in tests, each yield ends only after other programs' time slices,
// and the system spends most of its time in them; a rank that sleeps is woken at once. Messages take some 0.1 ms more.
#include <sched.h>
#include <time.h>

extern "C" int sched_yield() noexcept {
  const timespec moment{.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&moment, nullptr);
  return 0;
}
