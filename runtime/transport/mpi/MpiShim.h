/* Interface of libtpc_mpi.so, the only part of the runtime that is compiled against MPI. It is
   loaded only in processes that an MPI launcher started. Plain C, without other libraries. */
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
  /* Returns 0, or 1 with a text in `error`. cores_on_host: cores that the ranks of this host may
     use together; launchers may bind each rank to some of them. */
  int32_t (*init)(int32_t *rank, int32_t *size, int32_t *ranks_on_host, int32_t *cores_on_host,
                  char *error, int64_t capacity);
  /* Starts all messages; only posts may be in flight. Returns 0, or -1 if out of memory. */
  int32_t (*start)(const tpc_message *sends, int32_t num_sends, const tpc_message *receives,
                   int32_t num_receives);
  /* Sends a copy, concurrently with all started messages. The copy stays in flight until the
     receiver has it. Returns 0, or -1 if out of memory. */
  int32_t (*post)(const tpc_message *message);
  /* The next started messages complete only when all posts have completed. */
  void (*flush_next)(void);
  /* Makes progress. Returns 0 if nothing completed, 1 if something did, 2 if all is complete. */
  int32_t (*advance)(void);
  /* Sleeps briefly. Ends early if progress may have become possible since `advance`. `waited`:
     seconds so far. */
  void (*sleep)(double waited);
  /* Writes the awaited peers, ascending, and returns their number, at most `capacity`. */
  int32_t (*awaited)(int32_t *peers, int32_t capacity);
  /* Does not return. */
  void (*abort)(int32_t status);
  void (*finalize)(void);
} tpc_mpi_shim;

/* Type and name of the exported function. Both remain if TPC_MPI_SHIM_VERSION changes. */
typedef const tpc_mpi_shim *(*tpc_mpi_shim_fn)(void);
#define TPC_MPI_SHIM_SYMBOL "tpc_mpi_shim_v1"

#ifdef __cplusplus
}
#endif

#endif /* TPC_RT_TRANSPORT_MPI_MPISHIM_H */
