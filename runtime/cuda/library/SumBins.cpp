//===- SumBins.cpp - Kernel that sums score weights by bin ----------------===//
//
// The kernel computes the same bits as binOf and weightBelow (generate/Score.h), because f64
// operations round like the host's and sums are integers. Thread t writes bin t.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/SumBins.h"
#include "core/ExpFactors.h"
#include "core/SamplingRequest.h"
#include <bit>
#include <cstdio>

namespace tpc::rt::cuda {
namespace {

static_assert(numTopPBins == SumBinsLaunch::threads, "a thread for each bin");

constexpr const char *head = R"(
.visible .entry tpc_sum_bins(
  .param .u64 scores_, .param .u64 sums_, .param .u32 count_, .param .f32 largest_)
.maxntid 512, 1, 1
{
  .shared .align 8 .b64 weights[512];
  .shared .align 4 .b32 counts[512];
  .reg .pred %p<2>;
  .reg .b32 %thread, %count, %i, %bin, %own, %counts, %weights, %r;
  .reg .b64 %scores, %sums, %at, %x;
  .reg .f32 %largest, %score;
  .reg .f64 %distance, %shifted, %n, %rest, %sum, %d;
  // griddepcontrol.launch_dependents;
  // griddepcontrol.wait;
  ld.param.u64 %scores, [scores_];
  ld.param.u64 %sums, [sums_];
  ld.param.u32 %count, [count_];
  ld.param.f32 %largest, [largest_];
  cvta.to.global.u64 %scores, %scores;
  cvta.to.global.u64 %sums, %sums;
  mov.u32 %thread, %tid.x;
  mov.u32 %counts, counts;
  mov.u32 %weights, weights;
  mad.lo.u32 %r, %thread, 4, %counts;
  st.shared.u32 [%r], 0;
  mad.lo.u32 %r, %thread, 8, %weights;
  st.shared.u64 [%r], 0;
  bar.sync 0;
  mov.u32 %i, %thread;
ADD:
  setp.ge.u32 %p0, %i, %count;
  @%p0 bra ADDED;
  mul.wide.u32 %x, %i, 4;
  add.u64 %at, %scores, %x;
  ld.global.f32 %score, [%at];
  cvt.f64.f32 %distance, %largest;
  cvt.f64.f32 %d, %score;
  sub.rn.f64 %distance, %distance, %d;
  setp.eq.f32 %p1, %score, %largest;
  @%p1 mov.f64 %distance, 0d0000000000000000;
)";

constexpr const char *tail = R"(  cvt.rzi.s64.f64 %x, %sum;
  mad.lo.u32 %r, %bin, 8, %weights;
  red.shared.add.u64 [%r], %x;
NEXT:
  add.u32 %i, %i, 512;
  bra ADD;
ADDED:
  bar.sync 0;
  mul.wide.u32 %x, %thread, 8;
  add.u64 %at, %sums, %x;
  mad.lo.u32 %r, %thread, 4, %counts;
  ld.shared.u32 %own, [%r];
  cvt.u64.u32 %x, %own;
  st.global.u64 [%at], %x;
  mad.lo.u32 %r, %thread, 8, %weights;
  ld.shared.u64 %x, [%r];
  st.global.u64 [%at+4096], %x;
  ret;
}
)";

/// An instruction with a number as last operand.
std::string line(const char *begin, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "  %s, 0d%016llX;\n", begin,
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text;
}

} // namespace

std::string sumBinsKernel() {
  std::string text = head;
  text += line("mul.rn.f64 %d, %distance", 16) + line("min.f64 %d, %d", numTopPBins - 1) +
          "  cvt.rzi.u32.f64 %bin, %d;\n  mad.lo.u32 %r, %bin, 4, %counts;\n"
          "  red.shared.add.u32 [%r], 1;\n  setp.eq.u32 %p1, %bin, 511;\n  @%p1 bra NEXT;\n";
  // expOf
  text += "  neg.f64 %distance, %distance;\n" +
          line("mul.rn.f64 %shifted, %distance", 1.4426950408889634) +
          line("add.rn.f64 %shifted, %shifted", 0x1.8p52) +
          line("sub.rn.f64 %n, %shifted", 0x1.8p52) + line("mul.rn.f64 %d, %n", 0.693145751953125) +
          "  sub.rn.f64 %rest, %distance, %d;\n" +
          line("mul.rn.f64 %d, %n", 1.4286068203094172e-06) + "  sub.rn.f64 %rest, %rest, %d;\n" +
          line("mov.f64 %sum", 0);
  for (double factor : expFactors)
    text += "  mul.rn.f64 %sum, %sum, %rest;\n" + line("add.rn.f64 %sum, %sum", factor);
  return text +
         "  mov.b64 %x, %shifted;\n  add.u64 %x, %x, 1023;\n  shl.b64 %x, %x, 52;\n"
         "  mov.b64 %d, %x;\n  mul.rn.f64 %sum, %sum, %d;\n" +
         line("mul.rn.f64 %sum, %sum", 0x1p40) + line("add.rn.f64 %sum, %sum", 0.5) + tail;
}

} // namespace tpc::rt::cuda
