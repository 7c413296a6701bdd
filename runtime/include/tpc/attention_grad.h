/*===- attention_grad.h - Gradient of attention --------------------------===*/

#ifndef TPC_ATTENTION_GRAD_H
#define TPC_ATTENTION_GRAD_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients of a loss with respect to q, k and v of tpc_attention, from the gradient `dout` with
 * respect to its result, with the dense shape of the result. dq, dk and dv have the dense shapes of
 * q, k and v; a null result is not computed. args->out is not read; lengths and sinks are null.
 * Probabilities are recomputed for a block of queries at a time. Only for f32 on CPUs. */
void tpc_attention_grad(tpc_context *ctx, const tpc_attention_args *args, const float *dout,
                        float *dq, float *dk, float *dv);

#ifdef __cplusplus
}
#endif

#endif
