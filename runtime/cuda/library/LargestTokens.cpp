//===- LargestTokens.cpp - PTX that selects the top-scoring tokens --------===//

#include "cuda/library/LargestTokens.h"
#include "cuda/library/SamplingKernels.h"

namespace tpc::rt::cuda {

const char *const largestMemory = R"(  .shared .align 8 .b64 keys[4096];
  .shared .align 4 .b32 bins[512];
  .shared .align 4 .b32 sums[16];
  .shared .align 4 .b32 found[4];
  .reg .pred %joined, %counts;
  .reg .b32 %shown, %needed, %shift, %bin, %own, %sum, %before, %digit, %sums, %found;
  .reg .b32 %many, %present, %base;
  .reg .b64 %largest, %scores, %value, %prefix, %least, %keys, %list, %to, %candidates, %y<8>;
)";

namespace {

/// Stores the scores of the slice, and its tokens as %ranked integers.
constexpr const char *begin = R"(  ld.param.u64 %largest, [largest_];
  ld.param.u64 %scores, [scores_];
  ld.param.u64 %candidates, [candidates_];
  ld.param.u64 %at, [rows_];
  cvta.to.global.u64 %largest, %largest;
  cvta.to.global.u64 %scores, %scores;
  cvta.to.global.u64 %candidates, %candidates;
  cvta.to.global.u64 %at, %at;
  ld.global.u32 %r0, [%rows+40];
  ld.global.u32 %r1, [%at+40];
  sub.u32 %r0, %r0, %r1;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %largest, %largest, %x0;
  mul.wide.u32 %x0, %row, %count;
  mad.lo.u64 %scores, %x0, 4, %scores;
  mul.wide.s32 %x0, %place, 4;
  add.s64 %scores, %scores, %x0;
  cvt.u32.u64 %r0, %scores;
  and.b32 %r0, %r0, 15;
  setp.eq.and.u32 %p0, %r0, 0, %valid0;
  and.pred %p0, %p0, %valid3;
  @%p0 st.global.v4.f32 [%scores], {%s0, %s1, %s2, %s3};
  @%p0 bra STORED;
STORE
STORED:
  mov.u64 %keys, keys;
  mad.wide.u32 %at, %thread, 8, %keys;
  cvta.shared.u64 %list, %keys;
RANKS
  mov.u32 %digit, bins;
  mad.lo.u32 %bin, %thread, 4, %digit;
  mov.u32 %sums, sums;
  mov.u32 %found, found;
  mov.u32 %many, 2048;
  and.b32 %r0, %first, 0xfffffffc;
  mad.lo.u32 %r0, %slice, 2048, %r0;
  add.u32 %r1, %r0, 2048;
  max.u32 %r0, %r0, %first;
  min.u32 %r1, %r1, %end;
  sub.u32 %present, %r1, %r0;
  mul.wide.u32 %x0, %row, %slices;
  mad.lo.u64 %candidates, %x0, SLICE_BYTES, %candidates;
  mul.wide.u32 %x0, %slice, %shown;
  mad.lo.u64 %to, %x0, 8, %candidates;
  setp.eq.u32 %joined, %others, 0;
  @%joined mov.u64 %to, %largest;
)";

/// Selects the %shown largest of %many values at the generic address %list. %present of them are
/// tokens; the others are padding, which is below all tokens. Thread t counts digit 511 - t, so
/// that prefix sums over threads run from the largest digit down.
constexpr const char *select = R"(SELECT:
  mov.u64 %prefix, 0;
  mov.u64 %least, 1;
  mov.u32 %needed, %shown;
  mov.u32 %shift, 54;
  setp.ge.u32 %p0, %shown, %present;
  @%p0 bra COLLECT;
DIGIT:
  st.shared.u32 [%bin], 0;
  bar.sync 0;
  mov.u32 %base, 0;
COUNT:
  setp.ge.u32 %p0, %base, %many;
  @%p0 bra COUNTED;
VALUE
  shr.u64 %x0, %value, %shift;
  shr.u64 %x1, %x0, 9;
  setp.eq.and.u64 %counts, %x1, %prefix, %counts;
  cvt.u32.u64 %r0, %x0;
  not.b32 %r0, %r0;
  and.b32 %r0, %r0, 511;
  @!%counts mov.u32 %r0, 512;
  match.any.sync.b32 %r1, %r0, -1;
  popc.b32 %r2, %r1;
  brev.b32 %r1, %r1;
  clz.b32 %r1, %r1;
  setp.eq.and.u32 %counts, %r1, %lane, %counts;
  mov.u32 %r1, bins;
  mad.lo.u32 %r0, %r0, 4, %r1;
  @%counts red.shared.add.u32 [%r0], %r2;
  add.u32 %base, %base, 512;
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
  mov.u32 %base, 0;
COLLECT_ONE:
  setp.ge.u32 %p0, %base, %many;
  @%p0 bra COLLECTED;
VALUE
  setp.ge.and.u64 %counts, %value, %least, %counts;
  @!%counts bra COLLECT_NEXT;
  atom.shared.add.u32 %r0, [%found+12], 1;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %at, %to, %x0;
  st.global.u64 [%at], %ranked;
COLLECT_NEXT:
  add.u32 %base, %base, 512;
  bra COLLECT_ONE;
COLLECTED:
  add.u32 %r0, %present, %thread;
MISSING:
  setp.ge.u32 %p0, %r0, %shown;
  @%p0 bra SELECTED;
  mul.wide.u32 %x0, %r0, 8;
  add.u64 %at, %to, %x0;
  st.global.u64 [%at], %best;
  add.u32 %r0, %r0, 512;
  bra MISSING;
SELECTED:
  @%joined bra WRITE;
)";

/// The block that finishes last continues with the candidates of all slices.
constexpr const char *join = R"(  bar.sync 0;
  setp.ne.u32 %p0, %thread, 0;
  @%p0 bra COUNTED_SLICE;
  atom.acq_rel.gpu.global.inc.u32 %r0, [%joins+8], %others;
  st.shared.u32 [%found], %r0;
COUNTED_SLICE:
  bar.sync 0;
  ld.shared.u32 %r0, [%found];
  setp.ne.u32 %p0, %r0, %others;
  @%p0 bra DONE;
  setp.eq.u32 %joined, %r0, %r0;
  mov.u64 %to, %largest;
  mul.lo.u32 %many, %slices, %shown;
  mov.u32 %present, %count;
  cvta.global.u64 %list, %candidates;
  setp.gt.u32 %p0, %many, 4096;
  @%p0 bra SELECT;
  mul.wide.u32 %x0, %thread, 8;
  add.u64 %at, %candidates, %x0;
  add.u64 %x0, %keys, %x0;
COPY
  cvta.shared.u64 %list, %keys;
  bra SELECT;
)";

/// Loads this thread's value at %base into %ranked, and its key into %value. Sets %counts if there
/// is such a value.
constexpr const char *value = R"(  add.u32 %r0, %base, %thread;
  setp.lt.u32 %counts, %r0, %many;
  mov.u64 %ranked, %best;
  mad.wide.u32 %at, %r0, 8, %list;
  @%counts ld.u64 %ranked, [%at];
  mov.b64 {%low, %key}, %ranked;
  xor.b32 %r0, %key, 0x80000000;
  and.b32 %r1, %low, 0x7fffffff;
  shl.b32 %r2, %r0, 31;
  or.b32 %r1, %r1, %r2;
  shr.u32 %r0, %r0, 1;
  mov.b64 %value, {%r1, %r0};
)";

/// Adds the sums of earlier warps to a warp's %sum.
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

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

} // namespace

std::string findLargest() {
  std::string store, ranks, copy;
  for (int i = 0; i < 4; ++i) {
    std::string n = std::to_string(i);
    store +=
        "  @%valid" + n + " st.global.f32 [%scores+" + std::to_string(4 * i) + "], %s" + n + ";\n";
    ranks += "  mov.f32 %score, %s" + n + ";\nKEY\n  @!%valid" + n +
             " mov.b64 %ranked, %best;\n  st.shared.u64 [%at+" + std::to_string(4096 * i) +
             "], %ranked;\n  add.u32 %token, %token, 1;\n";
  }
  // All loads are in flight together.
  for (bool isStore : {false, true})
    for (int i = 0; i < 8; ++i) {
      std::string n = std::to_string(i), offset = std::to_string(4096 * i);
      copy += "  add.u32 %r0, %thread, " + std::to_string(512 * i) +
              ";\n  setp.lt.u32 %p0, %r0, %many;\n" +
              (isStore ? "  @%p0 st.shared.u64 [%x0+" + offset + "], %y" + n + ";\n"
                       : "  @%p0 ld.global.u64 %y" + n + ", [%at+" + offset + "];\n");
    }
  std::string text = std::string(begin) + select + join;
  for (const auto &[what, by] :
       {std::pair<std::string, std::string>{"\nSTORE\n", "\n" + store},
        {"\nRANKS\n", "\n" + ranks},
        {"\nCOPY\n", "\n" + copy},
        {"\nVALUE\n", "\n" + std::string(value)},
        {"\nADD_BEFORE\n", "\n" + addBefore()},
        {"SLICE_BYTES", std::to_string(SamplingSizes::candidatesOfSlice * sizeof(int64_t))}})
    text = replaced(text, what, by);
  return text;
}

} // namespace tpc::rt::cuda
