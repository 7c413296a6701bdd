/* Futexes in a shared window. */

#include "transport/mpi/shim/Doorbell.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Has the size of a cache line. MPI may align the window to less. */
typedef struct {
  _Atomic uint32_t rings;
  _Atomic uint32_t sleeping;
  uint32_t padding[14];
} bell;

static MPI_Win window = MPI_WIN_NULL;
static bell **bells; /* by world rank; null for ranks of other hosts */
static bell *mine;
static bell alone; /* used without shared memory */

void tpc_doorbells_open(MPI_Comm world, MPI_Comm host) {
  int size = 0, rank = 0, on_host = 0;
  MPI_Comm_size(world, &size);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(host, &on_host);
  mine = &alone;
  bells = calloc((size_t)size, sizeof(bell *));
  int *host_ranks = malloc(2 * (size_t)on_host * sizeof(int));
  int ready = bells && host_ranks;
  MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, host);
  if (!ready || on_host == 1) {
    free(host_ranks);
    return;
  }
  MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  void *base = NULL;
  if (MPI_Win_allocate_shared(sizeof(bell), sizeof(bell), MPI_INFO_NULL, host, &base, &window) !=
      MPI_SUCCESS) {
    window = MPI_WIN_NULL;
    free(host_ranks);
    return;
  }
  mine = base;
  atomic_store(&mine->rings, 0);
  atomic_store(&mine->sleeping, 0);
  for (int i = 0; i < on_host; ++i)
    host_ranks[i] = i;
  MPI_Group host_group, world_group;
  MPI_Comm_group(host, &host_group);
  MPI_Comm_group(world, &world_group);
  MPI_Group_translate_ranks(host_group, on_host, host_ranks, world_group, host_ranks + on_host);
  for (int i = 0; i < on_host; ++i) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void *address = NULL;
    MPI_Win_shared_query(window, i, &bytes, &unit, &address);
    bells[host_ranks[on_host + i]] = address;
  }
  bells[rank] = NULL; /* a rank does not ring itself */
  MPI_Group_free(&host_group);
  MPI_Group_free(&world_group);
  free(host_ranks);
  MPI_Barrier(host); /* all bells are initialized before a rank rings one */
}

void tpc_doorbells_close(void) {
  mine = &alone;
  free(bells);
  bells = NULL;
  if (window != MPI_WIN_NULL)
    MPI_Win_free(&window);
}

int tpc_doorbell_reaches(int32_t peer) { return bells && bells[peer]; }

void tpc_doorbell_ring(int32_t peer) {
  if (!tpc_doorbell_reaches(peer))
    return;
  /* A sleeper announces its sleep before the kernel compares the count; a ringer counts before
     it checks for sleepers. Both are sequentially consistent, so at least one sees the other. */
  atomic_fetch_add(&bells[peer]->rings, 1);
  if (atomic_load(&bells[peer]->sleeping))
    syscall(SYS_futex, &bells[peer]->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t tpc_doorbell_rings(void) { return atomic_load(&mine->rings); }

void tpc_doorbell_sleep(uint32_t rings, double seconds) {
  struct timespec timeout = {0, (long)(seconds * 1e9)};
  atomic_store(&mine->sleeping, 1);
  syscall(SYS_futex, &mine->rings, FUTEX_WAIT, rings, &timeout, NULL, 0);
  atomic_store(&mine->sleeping, 0);
}
