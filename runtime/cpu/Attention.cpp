//===- Attention.cpp - scaled dot-product attention -----------------------===//

#include "core/Context.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"

#include <algorithm>

namespace tpc::rt {

void CpuDevice::attention(const tpc_attention_args &a) {
  const KernelTable &kernel = kernels();
  // Keys that a query sees, at most.
  int64_t keys = a.causal && a.windowed
                     ? std::clamp<int64_t>(a.causal_offset - a.window_offset, 0, a.seq_k)
                     : a.seq_k;
  int threads = threadsFor(ctx, a.batch * a.heads_q * a.seq_q, a.head_size + a.value_size, keys);
  int64_t blocks = (a.seq_q + kernel.queryBlock - 1) / kernel.queryBlock;
  // Whole cache lines: workers do not share one.
  int64_t each = (kernel.attentionScratch(a) + 15) / 16 * 16;
  Scratch memory(scratch, threads * each);
  forEachTask(ctx, threads, a.batch * a.heads_q * blocks, [&](int64_t task, int worker) {
    // The last queries come first: with causality they take longest.
    int64_t block = blocks - 1 - task / (a.batch * a.heads_q), pair = task % (a.batch * a.heads_q);
    kernel.attention(a, pair / a.heads_q, pair % a.heads_q, block * kernel.queryBlock,
                     memory.data + worker * each);
  });
}

} // namespace tpc::rt
