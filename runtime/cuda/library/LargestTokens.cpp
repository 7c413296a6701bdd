//===- LargestTokens.cpp - PTX that selects the top-scoring tokens --------===//

#include "cuda/library/LargestTokens.h"

namespace tpc::rt::cuda {

const char *const largestMemory = R"(  .shared .align 4 .b32 bins[512];
  .shared .align 4 .b32 sums[16];
  .shared .align 4 .b32 found[4];
  .reg .b32 %shown, %needed, %shift, %bin, %own, %sum, %before, %digit, %sums, %found;
  .reg .b64 %largest, %scores, %value, %prefix, %least;
)";

// Thread t counts digit 511 - t, so that prefix sums over threads run from the largest digit down.
const char *const findLargest = R"(  ld.param.u64 %largest, [largest_];
  ld.param.u64 %scores, [scores_];
  ld.param.u64 %at, [rows_];
  cvta.to.global.u64 %largest, %largest;
  cvta.to.global.u64 %scores, %scores;
  cvta.to.global.u64 %at, %at;
  ld.global.u32 %r0, [%rows+40];
  ld.global.u32 %r1, [%at+40];
  sub.u32 %r0, %r0, %r1;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %largest, %largest, %x0;
  mul.wide.u32 %x0, %row, %count;
  mad.lo.u64 %scores, %x0, 4, %scores;
  mov.u32 %digit, bins;
  mad.lo.u32 %bin, %thread, 4, %digit;
  mov.u32 %sums, sums;
  mov.u32 %found, found;
  add.u32 %token, %first, %thread;
SCORE:
  setp.ge.u32 %p0, %token, %end;
  @%p0 bra SCORED;
LOAD
  mul.wide.u32 %x0, %place, 4;
  add.u64 %at, %scores, %x0;
  st.global.f32 [%at], %score;
  add.u32 %token, %token, 512;
  bra SCORE;
SCORED:
  mov.u64 %prefix, 0;
  mov.u64 %least, 0;
  mov.u32 %needed, %shown;
  mov.u32 %shift, 54;
  setp.ge.u32 %p0, %shown, %count;
  @%p0 bra COLLECT;
DIGIT:
  st.shared.u32 [%bin], 0;
  bar.sync 0;
  add.u32 %token, %first, %thread;
COUNT:
  setp.ge.u32 %p0, %token, %end;
  @%p0 bra COUNTED;
RANKED
  shr.u64 %x0, %value, %shift;
  shr.u64 %x1, %x0, 9;
  setp.ne.u64 %p1, %x1, %prefix;
  @%p1 bra COUNT_NEXT;
  cvt.u32.u64 %r0, %x0;
  not.b32 %r0, %r0;
  and.b32 %r0, %r0, 511;
  mov.u32 %r1, bins;
  mad.lo.u32 %r0, %r0, 4, %r1;
  red.shared.add.u32 [%r0], 1;
COUNT_NEXT:
  add.u32 %token, %token, 512;
  bra COUNT;
COUNTED:
  bar.sync 0;
  ld.shared.u32 %own, [%bin];
  mov.u32 %sum, %own;
ADD_BEFORE
  sub.u32 %before, %sum, %own;
  setp.lt.u32 %p1, %before, %needed;
  setp.ge.and.u32 %p1, %sum, %needed, %p1;
  not.b32 %digit, %thread;
  and.b32 %digit, %digit, 511;
  @%p1 st.shared.u32 [%found], %digit;
  @%p1 st.shared.u32 [%found+4], %before;
  @%p1 st.shared.u32 [%found+8], %own;
  bar.sync 0;
  ld.shared.u32 %digit, [%found];
  ld.shared.u32 %before, [%found+4];
  ld.shared.u32 %own, [%found+8];
  sub.u32 %needed, %needed, %before;
  cvt.u64.u32 %x0, %digit;
  shl.b64 %prefix, %prefix, 9;
  or.b64 %prefix, %prefix, %x0;
  shl.b64 %least, %prefix, %shift;
  setp.eq.u32 %p1, %needed, %own;
  setp.eq.or.u32 %p1, %shift, 0, %p1;
  @%p1 bra COLLECT;
  sub.u32 %shift, %shift, 9;
  bra DIGIT;
COLLECT:
  setp.eq.u32 %p1, %thread, 0;
  @%p1 st.shared.u32 [%found+12], 0;
  bar.sync 0;
  add.u32 %token, %first, %thread;
COLLECT_ONE:
  setp.ge.u32 %p0, %token, %end;
  @%p0 bra COLLECTED;
RANKED
  setp.lt.u64 %p1, %value, %least;
  @%p1 bra COLLECT_NEXT;
  atom.shared.add.u32 %r0, [%found+12], 1;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %at, %largest, %x0;
  st.global.u64 [%at], %ranked;
COLLECT_NEXT:
  add.u32 %token, %token, 512;
  bra COLLECT_ONE;
COLLECTED:
  add.u32 %r0, %count, %thread;
MISSING:
  setp.ge.u32 %p0, %r0, %shown;
  @%p0 bra WRITE;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %at, %largest, %x0;
  st.global.u64 [%at], %best;
  add.u32 %r0, %r0, 512;
  bra MISSING;
)";

const char *const loadRanked = R"(  sub.u32 %place, %token, %first;
  mul.wide.u32 %x0, %place, 4;
  add.u64 %at, %scores, %x0;
  ld.global.f32 %score, [%at];
KEY
  xor.b32 %r0, %key, 0x80000000;
  and.b32 %r1, %low, 0x7fffffff;
  shl.b32 %r2, %r0, 31;
  or.b32 %r1, %r1, %r2;
  shr.u32 %r0, %r0, 1;
  mov.b64 %value, {%r1, %r0};
)";

std::string addBefore() {
  std::string text;
  for (int distance : {1, 2, 4, 8, 16})
    text += "  shfl.sync.up.b32 %r0|%p1, %sum, " + std::to_string(distance) +
            ", 0, -1;\n  @%p1 add.u32 %sum, %sum, %r0;\n";
  text += "  mad.lo.u32 %r1, %warp, 4, %sums;\n  setp.eq.u32 %p1, %lane, 31;\n"
          "  @%p1 st.shared.u32 [%r1], %sum;\n  bar.sync 0;\n";
  for (int warp = 0; warp < 15; ++warp)
    text += "  ld.shared.u32 %r0, [%sums+" + std::to_string(4 * warp) +
            "];\n  setp.gt.u32 %p1, %warp, " + std::to_string(warp) +
            ";\n  @%p1 add.u32 %sum, %sum, %r0;\n";
  return text;
}

} // namespace tpc::rt::cuda
