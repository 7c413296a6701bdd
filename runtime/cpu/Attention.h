//===- Attention.h - Attention by queries and by keys ---------------------===//

#ifndef TPC_RT_CPU_ATTENTION_H
#define TPC_RT_CPU_ATTENTION_H

#include "core/Arena.h"
#include "tpc/runtime.h"

namespace tpc::rt {

/// Computes attention with one task per block of queries of one head (AttentionKernel.h).
void attendByQueries(tpc_context &ctx, Arena &scratch, const tpc_attention_args &args);

/// Computes attention with one task per range of one KV head's keys (DecodeAttention.h).
void attendByKeys(tpc_context &ctx, Arena &scratch, const tpc_attention_args &args);

/// Whether attendByKeys is faster.
bool isFasterByKeys(const tpc_attention_args &args);

} // namespace tpc::rt

#endif // TPC_RT_CPU_ATTENTION_H
