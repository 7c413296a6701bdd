/* Asynchronous communication: part of the C ABI of runtime.h.
 *
 * Members of a group call these operations and those of runtime.h in the same order. Until the
 * wait, the operand must not be written, and the result must be neither read nor written. At most
 * 16 operations of a rank are in flight. */
#ifndef TPC_ASYNC_H
#define TPC_ASYNC_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts tpc_all_reduce. Returns the token for tpc_wait; 0 if the operation is already complete. */
int32_t tpc_all_reduce_start(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                             const void *in, void *out, int64_t count); /* in may alias out */
/* Returns when the operation is complete. Each token is waited for exactly once. */
void tpc_wait(tpc_context *ctx, int32_t token);

#ifdef __cplusplus
}
#endif
#endif
