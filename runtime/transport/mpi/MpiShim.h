/* What libtpc_mpi.so offers. It is the only part of the runtime that is compiled against MPI, and
 * is loaded only in processes that a launcher of MPI programs started. Plain C, and no other
 * library. */
#ifndef TPC_RT_TRANSPORT_MPI_MPISHIM_H
#define TPC_RT_TRANSPORT_MPI_MPISHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPC_MPI_SHIM_VERSION 2

typedef struct {
  void *data;
  int64_t bytes; /* any number, also more than an MPI count holds */
  int32_t peer;  /* rank in the world */
  int32_t tag;   /* messages of one pair and one tag arrive in order */
} tpc_mpi_message;

typedef struct {
  uint32_t version;
  /* 0, or 1 with a text in `error`. cores_on_host: those that the ranks of this host may use
   * together; launchers may bind each to some of them. */
  int32_t (*init)(int32_t *rank, int32_t *size, int32_t *ranks_on_host, int32_t *cores_on_host,
                  char *error, int64_t capacity);
  /* Starts all and returns when all are complete. `spin`: waits without giving the core away for a
   * moment. Returns -1, or a peer that has called `leave` and so will never take part, or -2 when
   * there is no memory, or, after `timeout` seconds (0: never), -3 for the rank that has waited so
   * long and has told the others, and -4 for those that wait as well. After -3 and -4 the world can
   * only be aborted: who got -4 says what it waits for, and leaves that to who got -3. */
  int32_t (*exchange)(const tpc_mpi_message *sends, int32_t num_sends,
                      const tpc_mpi_message *receives, int32_t num_receives, int32_t spin,
                      double timeout);
  /* Returns when all ranks have called it; as `exchange`. */
  int32_t (*leave)(double timeout);
  /* After -3 and -4: the peers that are waited for, ascending; returns how many, at most
   * `capacity`. */
  int32_t (*missing)(int32_t *peers, int32_t capacity);
  /* Does not return. */
  void (*abort)(int32_t status);
  void (*finalize)(void);
} tpc_mpi_shim;

/* Exported under this name. */
typedef const tpc_mpi_shim *(*tpc_mpi_shim_fn)(void);
#define TPC_MPI_SHIM_SYMBOL "tpc_mpi_shim_v1"

#ifdef __cplusplus
}
#endif

#endif /* TPC_RT_TRANSPORT_MPI_MPISHIM_H */
