// A library for LD_PRELOAD in which sched_yield() sleeps for 50 us. A rank that waits for a message calls sched_yield()
// in a loop. If ranks outnumber cores, as in tests, such a call returns only after the time slices of other ranks,
// whereas a rank that sleeps runs as soon as its time is over.
#include <sched.h>
#include <time.h>

extern "C" int sched_yield() noexcept {
  const timespec moment{.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&moment, nullptr);
  return 0;
}
