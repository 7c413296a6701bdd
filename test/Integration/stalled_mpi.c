/* A libtpc_mpi.so whose MPI_Init does not return, as if a rank never reached MPI_Init's barrier. */

#include "transport/mpi/MpiShim.h"
#include <unistd.h>

static int32_t init(int32_t *rank, int32_t *size, int32_t *ranks_on_host, int32_t *cores_on_host,
                    char *error, int64_t capacity) {
  (void)rank, (void)size, (void)ranks_on_host, (void)cores_on_host, (void)error, (void)capacity;
  for (;;)
    pause();
}

static const tpc_mpi_shim shim = {.version = TPC_MPI_SHIM_VERSION, .init = init};

const tpc_mpi_shim *tpc_mpi_shim_v1(void) { return &shim; }
