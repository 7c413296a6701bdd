/* Spin-then-sleep policy of waits.
 *
 * Shared by ranks that are threads, by processes, and by the threads of a rank. If every computing
 * thread has a core, a waiter spins for about the time that putting a core to sleep and waking it
 * takes. Otherwise spinning could use the core of the awaited thread, so the waiter sleeps at once.
 * Plain C, for the MPI shim. */
#ifndef TPC_RT_CORE_SPINWAIT_H
#define TPC_RT_CORE_SPINWAIT_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

enum {
  TPC_SPIN_NANOSECONDS = 100000,
  /* The other thread may be scheduled on the same core: the waiter yields regularly. */
  TPC_SPIN_LOOKS_PER_YIELD = 32
};

typedef struct {
  int32_t awake; /* 0: no spare cores, or spun for long enough */
  int32_t yields;
  int32_t looks;
  int64_t end; /* on the clock below; 0: not read yet */
} tpc_spin;

static inline int64_t tpc_spin_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* `yields`: number of yields before sleep. 0 if the awaited event also ends the sleep. */
static inline tpc_spin tpc_spin_begin(int may_spin, int32_t yields) {
  tpc_spin spin = {may_spin != 0, yields, 0, 0};
  return spin;
}

/* Call after each unsuccessful check. Returns whether to check again at once; 0: sleep. */
static inline int tpc_spin_again(tpc_spin *spin) {
  if (spin->awake && ++spin->looks % TPC_SPIN_LOOKS_PER_YIELD) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    return 1;
  }
  if (spin->awake) {
    int64_t now = tpc_spin_clock();
    if (spin->end == 0)
      spin->end = now + TPC_SPIN_NANOSECONDS;
    spin->awake = now < spin->end;
  }
  if (!spin->awake && spin->yields-- <= 0)
    return 0;
  sched_yield();
  return 1;
}

#endif /* TPC_RT_CORE_SPINWAIT_H */
