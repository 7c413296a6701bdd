//===- AppendKernels.cpp - Kernels that append to KV caches ---------------===//
//
// These kernels are hand-written PTX, because they do not depend on the program: all sizes are
// parameters of the call. They read the lengths on the device, so a recorded launch appends after
// the lengths at replay time. Like all kernels of a step, they wait for the previous one
// (tpc/dependent_launch.h).
//
// Consecutive threads copy consecutive vectors of the cache: those of a row, then the other rows of
// the same head, then the next head. In the source, rows are strided, and each row is contiguous.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/AppendKernels.h"
#include "core/DType.h"
#include <algorithm>
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

// A length of at least the capacity is compared separately, because its sum with a row number may
// overflow.
constexpr const char *text = R"(
.visible .entry tpc_append_WIDTH(
  .param .u64 cache_, .param .u64 fresh_, .param .u64 lengths_,
  .param .u64 batch_bytes_, .param .u64 head_bytes_, .param .u64 row_bytes_,
  .param .u64 capacity_,
  .param .u32 heads_, .param .u32 sequence_, .param .u32 pieces_, .param .u32 count_)
.maxntid 256, 1, 1
{
  .reg .pred %p<4>;
  .reg .b16 %h;
  .reg .b32 %i, %step, %count, %heads, %sequence, %pieces, %piece, %row, %head, %batch, %rest, %r<4>;
  .reg .b64 %cache, %fresh, %lengths, %batch_bytes, %head_bytes, %row_bytes, %capacity;
  .reg .b64 %length, %place, %from, %to, %wide, %bytes, %x;
  // griddepcontrol.launch_dependents;
  // griddepcontrol.wait;
  ld.param.u64 %cache, [cache_];
  ld.param.u64 %fresh, [fresh_];
  ld.param.u64 %lengths, [lengths_];
  ld.param.u64 %batch_bytes, [batch_bytes_];
  ld.param.u64 %head_bytes, [head_bytes_];
  ld.param.u64 %row_bytes, [row_bytes_];
  ld.param.u64 %capacity, [capacity_];
  ld.param.u32 %heads, [heads_];
  ld.param.u32 %sequence, [sequence_];
  ld.param.u32 %pieces, [pieces_];
  ld.param.u32 %count, [count_];
  cvta.to.global.u64 %cache, %cache;
  cvta.to.global.u64 %fresh, %fresh;
  cvta.to.global.u64 %lengths, %lengths;
  mul.wide.u32 %bytes, %pieces, WIDTH;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %i, %r0, %r1, %r2;
  mul.lo.u32 %step, %r1, %r3;
LOOP:
  setp.ge.u32 %p0, %i, %count;
  @%p0 bra DONE;
  div.u32 %rest, %i, %pieces;
  mul.lo.u32 %piece, %rest, %pieces;
  sub.u32 %piece, %i, %piece;
  div.u32 %r0, %rest, %sequence;
  mul.lo.u32 %row, %r0, %sequence;
  sub.u32 %row, %rest, %row;
  div.u32 %batch, %r0, %heads;
  mul.lo.u32 %head, %batch, %heads;
  sub.u32 %head, %r0, %head;
  mul.wide.u32 %x, %batch, 8;
  add.u64 %x, %lengths, %x;
  ld.global.u64 %length, [%x];
  max.s64 %length, %length, 0;
  setp.ge.s64 %p1, %length, %capacity;
  @%p1 bra NEXT;
  cvt.u64.u32 %wide, %row;
  add.s64 %place, %length, %wide;
  setp.ge.s64 %p2, %place, %capacity;
  @%p2 bra NEXT;
  mad.lo.s64 %from, %wide, %row_bytes, %fresh;
  cvt.u64.u32 %wide, %head;
  mad.lo.s64 %from, %wide, %head_bytes, %from;
  cvt.u64.u32 %wide, %batch;
  mad.lo.s64 %from, %wide, %batch_bytes, %from;
  cvt.u64.u32 %wide, %r0;
  mad.lo.s64 %place, %wide, %capacity, %place;
  mad.lo.s64 %to, %place, %bytes, %cache;
  mul.wide.u32 %x, %piece, WIDTH;
  add.u64 %from, %from, %x;
  add.u64 %to, %to, %x;
MOVE
NEXT:
  add.u32 %i, %i, %step;
  bra LOOP;
DONE:
  ret;
}
)";

std::string moveOf(int width) {
  switch (width) {
  case 16:
    return "  .reg .b32 %v<4>;\n"
           "  ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%from];\n"
           "  st.global.v4.b32 [%to], {%v0, %v1, %v2, %v3};";
  case 8:
    return "  ld.global.b64 %x, [%from];\n  st.global.b64 [%to], %x;";
  case 4:
    return "  ld.global.b32 %r1, [%from];\n  st.global.b32 [%to], %r1;";
  default:
    return "  ld.global.b16 %h, [%from];\n  st.global.b16 [%to], %h;";
  }
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

} // namespace

const char *AppendLaunch::name() const {
  return appendKernelNames[std::find(std::begin(widths), std::end(widths), width) -
                           std::begin(widths)];
}

std::string appendKernels() {
  std::string all = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (int width : AppendLaunch::widths)
    all += replaced(replaced(text, "WIDTH", std::to_string(width)), "MOVE", moveOf(width));
  return all;
}

AppendLaunch::AppendLaunch(const tpc_append_args &args)
    : cache(reinterpret_cast<uint64_t>(args.cache)), fresh(reinterpret_cast<uint64_t>(args.fresh)),
      lengths(reinterpret_cast<uint64_t>(args.lengths)), capacity(args.capacity) {
  int64_t element = sizeOf(args.dtype), bytes = args.size * element;
  batchBytes = args.fresh_batch_stride * element;
  headBytes = args.fresh_head_stride * element;
  rowBytes = args.fresh_row_stride * element;
  // The lowest set bit limits the vector width.
  uint64_t all = cache | fresh;
  for (int64_t distance : {bytes, batchBytes, headBytes, rowBytes})
    all |= static_cast<uint64_t>(distance);
  const int *found = std::find_if(std::begin(widths), std::end(widths),
                                  [&](int one) { return all % static_cast<uint64_t>(one) == 0; });
  if (found == std::end(widths))
    throw std::runtime_error("internal error: a cache with one-byte elements");
  width = *found;
  heads = static_cast<uint32_t>(args.heads);
  sequence = static_cast<uint32_t>(args.sequence);
  pieces = static_cast<uint32_t>(bytes / width);
  int64_t rows = args.batch * args.heads * args.sequence;
  if (rows > INT32_MAX / std::max<int64_t>(bytes / width, 1))
    throw std::runtime_error("a step appends " + std::to_string(rows) + " rows of " +
                             std::to_string(bytes) +
                             " bytes to a cache, too many for 32-bit indices: run smaller sizes");
  count = static_cast<uint32_t>(rows) * pieces;
}

int64_t AppendLaunch::blocks(int multiprocessors) const {
  constexpr int64_t ofMultiprocessor = 32;
  return std::min((int64_t(count) + threads - 1) / threads,
                  ofMultiprocessor * std::max(multiprocessors, 1));
}

} // namespace tpc::rt::cuda
