//===- Attention.h - two ways to compute attention ------------------------===//

#ifndef TPC_RT_CPU_ATTENTION_H
#define TPC_RT_CPU_ATTENTION_H

#include "core/Arena.h"
#include "tpc/runtime.h"

namespace tpc::rt {

/// Tasks of a block of queries of one head each: AttentionKernel.h.
void attendByQueries(tpc_context &ctx, Arena &scratch, const tpc_attention_args &args);

/// Tasks of a part of one kv head's keys each: DecodeAttention.h.
void attendByKeys(tpc_context &ctx, Arena &scratch, const tpc_attention_args &args);

/// The faster one.
bool isFasterByKeys(const tpc_attention_args &args);

} // namespace tpc::rt

#endif // TPC_RT_CPU_ATTENTION_H
