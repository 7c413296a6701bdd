/* A word for each rank of this host, in memory that they share: MPI offers nothing to sleep on, so
 * who has sent something rings, and who waits sleeps on its word. Only a hint: sleeps are bounded,
 * so a ring that MPI's own protocols would have needed costs time and nothing else. */
#ifndef TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H
#define TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H

#include <mpi.h>
#include <stdint.h>

/* Collective over `world`; `host` has the ranks of this host. Without shared memory there are no
 * bells. */
void tpc_doorbells_open(MPI_Comm world, MPI_Comm host);
void tpc_doorbells_close(void);

/* Whether `peer` can ring and be rung. */
int tpc_doorbell_reaches(int32_t peer);
void tpc_doorbell_ring(int32_t peer);
/* Rings so far at this rank; to be read before looking for what one would otherwise sleep for. */
uint32_t tpc_doorbell_rings(void);
/* Until there is another ring, or `seconds` (below 1) have passed. */
void tpc_doorbell_sleep(uint32_t rings, double seconds);

#endif /* TPC_RT_TRANSPORT_MPI_SHIM_DOORBELL_H */
