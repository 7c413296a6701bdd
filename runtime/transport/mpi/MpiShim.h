/* What libtpc_mpi.so offers. It is the only part of the runtime that is compiled against MPI, and
 * is loaded only in processes that a launcher of MPI programs started. Plain C, and no other
 * library. */
#ifndef TPC_RT_TRANSPORT_MPI_MPISHIM_H
#define TPC_RT_TRANSPORT_MPI_MPISHIM_H

#include "transport/messages/Message.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPC_MPI_SHIM_VERSION 4

typedef struct {
  uint32_t version;
  /* 0, or 1 with a text in `error`. cores_on_host: those that the ranks of this host may use
   * together; launchers may bind each to some of them. */
  int32_t (*init)(int32_t *rank, int32_t *size, int32_t *ranks_on_host, int32_t *cores_on_host,
                  char *error, int64_t capacity);
  /* Begins with all; nothing else may be under way but posts. 0, or -1 when there is no memory. */
  int32_t (*start)(const tpc_message *sends, int32_t num_sends, const tpc_message *receives,
                   int32_t num_receives);
  /* Sends a copy, beside all that is started, until the receiver has it. 0, or -1 when there is no
   * memory. */
  int32_t (*post)(const tpc_message *message);
  /* What is started next is completed when all that was posted is as well. */
  void (*flush_next)(void);
  /* Lets them get on: 0 if nothing was completed, 1 if something was, 2 if all is. */
  int32_t (*advance)(void);
  /* Until something may have happened since `advance`, and not for long; `waited` seconds so far.
   */
  void (*sleep)(double waited);
  /* The peers that are waited for, ascending; returns how many, at most `capacity`. */
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
