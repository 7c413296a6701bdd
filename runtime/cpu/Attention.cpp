//===- Attention.cpp - scaled dot-product attention -----------------------===//

#include "core/Context.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"
#include <string>

using namespace tpc::rt;

extern "C" void tpc_attention(tpc_context *ctx, const tpc_attention_args *args) {
  const tpc_attention_args &a = *args;
  if (a.batch <= 0 || a.seq_q <= 0 || a.heads_q <= 0 || a.value_size <= 0)
    return;
  if (a.heads_kv <= 0 || a.heads_q % a.heads_kv != 0)
    fail(*ctx, "internal error: attention: " + std::to_string(a.heads_kv) +
                   " kv heads cannot serve " + std::to_string(a.heads_q) + " query heads");
  const KernelTable &kernel = kernels();
  int threads =
      threadsFor(*ctx, a.batch * a.heads_q * a.seq_q, a.head_size + a.value_size, a.seq_k);
  int64_t blocks = (a.seq_q + kernel.queryBlock - 1) / kernel.queryBlock;
  // Whole cache lines: workers do not share one.
  int64_t scratchSize = (kernel.attentionScratch(a) + 15) / 16 * 16;
  float *scratch = static_cast<float *>(tpc_frame_push(ctx, threads * scratchSize * sizeof(float)));
  forEachTask(*ctx, threads, a.batch * a.heads_q * blocks, [&](int64_t task, int worker) {
    // The last queries come first: with causality they take longest.
    int64_t block = blocks - 1 - task / (a.batch * a.heads_q), pair = task % (a.batch * a.heads_q);
    kernel.attention(a, pair / a.heads_q, pair % a.heads_q, block * kernel.queryBlock,
                     scratch + worker * scratchSize);
  });
  tpc_frame_pop(ctx, scratch);
}
