/* Wake-up words in memory shared by the ranks of a host. MPI has no blocking wait without
   spinning. So a waiting rank sleeps on its own word, and a sender rings: it changes the receiver's
   word. Rings are only hints: sleeps are bounded, so a ring that MPI's own protocols miss costs
   only time. */
#ifndef TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H
#define TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H

#include <mpi.h>
#include <stdint.h>

/* Collective over `world`; `host` has the ranks of this host. Without shared memory there are no
   doorbells. */
void tpc_doorbells_open(MPI_Comm world, MPI_Comm host);
void tpc_doorbells_close(void);

/* Whether this rank and `peer` can ring each other. */
int tpc_doorbell_reaches(int32_t peer);
void tpc_doorbell_ring(int32_t peer);
/* Number of rings so far at this rank. Read it before checking for progress. */
uint32_t tpc_doorbell_rings(void);
/* Sleeps until the next ring, or for `seconds` (below 1). */
void tpc_doorbell_sleep(uint32_t rings, double seconds);

#endif /* TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H */
