/* Sums over micro-batches: part of the C ABI of runtime.h. */
#ifndef TPC_ACCUMULATE_H
#define TPC_ACCUMULATE_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sum[i] = from[i] for micro-batch 0, and sum[i] += from[i] for later ones, for `count` f32
 * elements. The ranges do not overlap. */
void tpc_accumulate(tpc_context *ctx, void *sum, const void *from, int64_t count,
                    int64_t micro_batch);

#ifdef __cplusplus
}
#endif
#endif
