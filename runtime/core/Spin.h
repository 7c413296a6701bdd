/* Spin.h - how long who waits stays awake
 *
 * The one policy for ranks that are threads, for processes, and for the threads of a rank. Where
 * everybody who computes has a core, who waits looks again for about as long as it takes to put a
 * core to sleep and to wake it; anywhere else it takes the core away from whom it waits for, and
 * sleeps at once. Plain C, for the MPI shim. */
#ifndef TPC_RT_CORE_SPIN_H
#define TPC_RT_CORE_SPIN_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

enum {
  TPC_SPIN_NANOSECONDS = 100000,
  /* The one who is waited for may have been put on the same core: now and then it is given away. */
  TPC_SPIN_LOOKS_PER_YIELD = 32
};

typedef struct {
  int32_t awake; /* no cores to spare, or spun for long enough: 0 */
  int32_t yields;
  int32_t looks;
  int64_t end; /* on the clock below; 0: not read yet */
} tpc_spin;

static inline int64_t tpc_spin_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* `yields`: how often the core is given away before sleep. 0 where whatever is waited for ends the
 * sleep. */
static inline tpc_spin tpc_spin_begin(int may_spin, int32_t yields) {
  tpc_spin spin = {may_spin != 0, yields, 0, 0};
  return spin;
}

/* To be asked after each look that was in vain: whether to look again at once, or to sleep. */
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

#endif /* TPC_RT_CORE_SPIN_H */
