//===- Attention.cpp - Attention, its gradient, and appends to caches -----===//

#include "cpu/Attention.h"
#include "core/Context.h"
#include "core/DType.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace tpc::rt {
namespace {

/// Rounds up to whole cache lines, so that threads share none.
int64_t wholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

/// Keys of a sequence that are visible to some query, by causality and window.
struct VisibleKeys {
  int64_t begin = 0, end;

  VisibleKeys(const tpc_attention_args &a, int64_t batch) : end(a.seq_k) {
    int64_t before = a.lengths ? a.lengths[batch] : 0;
    if (a.causal)
      end = std::clamp<int64_t>(a.seq_q + a.causal_offset + before, 0, a.seq_k);
    if (a.windowed)
      begin = std::clamp<int64_t>(a.window_offset + before + 1, 0, end);
  }

  // Ranges of keys start at multiples of decodeKeys, whatever the window, so that a key's range
  // depends only on its index.
  int64_t firstPart() const { return begin / decodeKeys; }
  int64_t parts() const { return begin < end ? (end - 1) / decodeKeys - firstPart() + 1 : 0; }
};

/// Number of unfinished ranges of a KV head's keys.
struct alignas(64) PartsLeft {
  std::atomic<int64_t> parts;
};

} // namespace

void attendByQueries(tpc_context &ctx, Arena &scratch, const tpc_attention_args &a) {
  const KernelTable &kernel = kernels();
  // Maximum number of keys that are visible to a query.
  int64_t keys = a.causal && a.windowed
                     ? std::clamp<int64_t>(a.causal_offset - a.window_offset, 0, a.seq_k)
                     : a.seq_k;
  int threads = threadsFor(ctx, a.batch * a.heads_q * a.seq_q, a.head_size + a.value_size, keys);
  int64_t blocks = (a.seq_q + kernel.queryBlock - 1) / kernel.queryBlock;
  int64_t each = wholeLines(kernel.attentionScratch(a));
  Scratch memory(scratch, threads * each);
  forEachTask(ctx, threads, a.batch * a.heads_q * blocks, [&](int64_t task, int worker) {
    // The last queries come first: with causality they take longest.
    int64_t block = blocks - 1 - task / (a.batch * a.heads_q), pair = task % (a.batch * a.heads_q);
    kernel.attention(a, pair / a.heads_q, pair % a.heads_q, block * kernel.queryBlock,
                     memory.data + worker * each);
  });
}

void attendByKeys(tpc_context &ctx, Arena &scratch, const tpc_attention_args &a) {
  const KernelTable &kernel = kernels();
  int64_t maxParts = 0, keys = 0, pairs = a.batch * a.heads_kv;
  for (int64_t batch = 0; batch < (a.lengths ? a.batch : 1); ++batch) {
    VisibleKeys visible(a, batch);
    maxParts = std::max(maxParts, visible.parts());
    keys = std::max(keys, visible.end - visible.begin);
  }
  // Reading a key costs as much as computing eight rows with it.
  int64_t rows = std::max<int64_t>(a.seq_q * (a.heads_q / a.heads_kv), 8);
  int threads = threadsFor(ctx, pairs * rows, a.head_size + a.value_size, keys);
  int64_t each = wholeLines(kernel.decodeScratch(a)), part = kernel.decodedFloats(a);
  // Uses the capacity of growing sequences, so that memory use stays constant.
  int64_t ofPair =
      wholeLines((a.lengths ? (a.seq_k + decodeKeys - 1) / decodeKeys : maxParts) * part);
  Scratch memory(scratch, threads * each + pairs * ofPair);
  float *decoded = memory.data + threads * each;
  constexpr int64_t lineFloats = sizeof(PartsLeft) / sizeof(float);
  Scratch counters(scratch, pairs * lineFloats);
  auto *left = reinterpret_cast<PartsLeft *>(counters.data);
  for (int64_t pair = 0; pair < pairs; ++pair)
    new (left + pair) PartsLeft{VisibleKeys(a, pair / a.heads_kv).parts()};
  // If no key is visible, a task only writes the result.
  int64_t tasks = std::max<int64_t>(maxParts, 1);
  forEachTask(ctx, threads, pairs * tasks, [&](int64_t task, int worker) {
    // Tasks are ordered by keys and then by KV head, because the rows of one token are adjacent.
    int64_t pair = task % pairs, i = task / pairs;
    int64_t batch = pair / a.heads_kv, kvHead = pair % a.heads_kv;
    VisibleKeys visible(a, batch);
    int64_t parts = visible.parts(), first = visible.firstPart();
    if (i >= std::max<int64_t>(parts, 1))
      return; // another sequence is longer
    if (parts)
      kernel.decode(a, batch, kvHead, std::max(visible.begin, (first + i) * decodeKeys),
                    std::min(visible.end, (first + i + 1) * decodeKeys),
                    memory.data + worker * each, decoded + pair * ofPair + i * part);
    if (left[pair].parts.fetch_sub(1, std::memory_order_acq_rel) <= 1)
      kernel.mergeDecoded(a, batch, kvHead, decoded + pair * ofPair, parts);
  });
}

bool isFasterByKeys(const tpc_attention_args &a) {
  // With more queries, blocks of queries fill at least half of their lanes.
  return a.seq_q <= 8;
}

void CpuDevice::attention(const tpc_attention_args &a) {
  if (isFasterByKeys(a))
    attendByKeys(ctx, scratch, a);
  else
    attendByQueries(ctx, scratch, a);
}

void CpuDevice::attentionGrad(const tpc_attention_args &a, const float *dout, float *dq, float *dk,
                              float *dv) {
  const KernelTable &kernel = kernels();
  int threads =
      threadsFor(ctx, a.batch * a.heads_q * a.seq_q, 3 * a.head_size + 2 * a.value_size, a.seq_k);
  const AttentionGradSizes sizes = kernel.attentionGradSizes(a);
  const int64_t each = wholeLines(sizes.scratch), heads = a.batch * a.heads_kv;
  // Few KV heads (multi-query attention of one sample) would be few tasks.
  constexpr int64_t minTasks = 8;
  const int64_t parts =
      std::clamp<int64_t>((minTasks + heads - 1) / heads, 1, std::max<int64_t>(sizes.units, 1));
  // With one part, the sums of a task are written when it ends.
  Scratch memory(scratch, threads * each + (parts > 1 ? heads * parts : threads) * sizes.sums);
  float *allSums = memory.data + threads * each;
  forEachTask(ctx, threads, heads * parts, [&](int64_t task, int worker) {
    int64_t head = task / parts, index = task % parts;
    AttentionGradPart part{head / a.heads_kv, head % a.heads_kv, sizes.units * index / parts,
                           sizes.units * (index + 1) / parts};
    float *sums = allSums + (parts > 1 ? task : worker) * sizes.sums;
    kernel.attentionGrad(a, dout, dq, dk, dv, part, sums, memory.data + worker * each);
    if (parts == 1)
      kernel.addAttentionGrads(a, dk, dv, part.batch, part.kvHead, sums, 1, 0, a.seq_k);
  });
  if (parts == 1)
    return;
  constexpr int64_t keys = 32; // of a task
  const int64_t blocks = (a.seq_k + keys - 1) / keys;
  forEachTask(ctx, threads, heads * blocks, [&](int64_t task, int) {
    int64_t head = task / blocks, key0 = task % blocks * keys;
    kernel.addAttentionGrads(a, dk, dv, head / a.heads_kv, head % a.heads_kv,
                             allSums + head * parts * sizes.sums, parts, key0,
                             std::min(key0 + keys, a.seq_k));
  });
}

void CpuDevice::append(const tpc_append_args &a) {
  const int64_t row = a.size * sizeOf(a.dtype);
  auto *cache = static_cast<std::byte *>(a.cache);
  auto *fresh = static_cast<const std::byte *>(a.fresh);
  // For few bytes, waking a thread does not pay.
  int threads = threadsFor(ctx, a.batch * a.heads, a.sequence, row);
  forEachTask(ctx, threads, a.batch * a.heads, [&](int64_t task, int) {
    int64_t batch = task / a.heads, head = task % a.heads;
    int64_t length = std::max<int64_t>(a.lengths[batch], 0);
    int64_t count = std::min(a.sequence, a.capacity - length);
    const std::byte *from =
        fresh + (batch * a.fresh_batch_stride + head * a.fresh_head_stride) * sizeOf(a.dtype);
    std::byte *to = cache + (task * a.capacity + length) * row;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * row, from + i * a.fresh_row_stride * sizeOf(a.dtype),
                  static_cast<size_t>(row));
  });
}

} // namespace tpc::rt
