//===- SamplingKernels.cpp - Token sampling kernels -----------------------===//
//
// The kernels compute a row's largest score, or largest sum of score and noise, as one integer that
// includes the token. The bits equal those of generate/Score.h and generate/Random.h, because
// operations are on integers or have a defined rounding.
//
// A row is divided into slices of 2048 tokens, one for each block. A thread computes a quad: four
// tokens, which share one Philox draw and are read by one access. Noise needs two f64 logarithms,
// but its random bits give cheap bounds. The first pass therefore adds the lower
// bound of its noise to each score, and finds the largest sum of the slice. The second pass
// evaluates only the few tokens whose score plus upper bound reaches that sum.
//
// Blocks combine their results by atomics: the maximum of all slices, and a count of finished
// slices, which wraps to 0. The block that finishes last writes the maximum and clears it for the
// next launch. The maximum does not depend on the order.
//
// For rows that request their top-scoring tokens, scores are stored, and these tokens are then
// selected (LargestTokens.h).
//
//===----------------------------------------------------------------------===//

#include "cuda/library/SamplingKernels.h"
#include "cuda/library/LargestTokens.h"
#include "tpc/runtime.h"
#include <bit>
#include <cstdio>

namespace tpc::rt::cuda {
namespace {

constexpr const char *head = R"(
.visible .entry tpc_choose_NAME(
  .param .u64 logits_, .param .u64 rows_, .param .u64 best_,
  .param .u64 largest_, .param .u64 scores_, .param .u64 candidates_, .param .u64 joins_,
  .param .u32 count_, .param .u32 first_, .param .u32 row_bytes_, .param .u32 slices_)
.maxntid 512, 1, 1
{
  .shared .align 8 .b64 largest[16];
  .shared .align 4 .b32 floors[16];
LARGEST_MEMORY
  .reg .pred %p<8>, %valid<4>;
  .reg .b16 %h<4>;
  .reg .b32 %row, %thread, %lane, %warp, %active, %noisy, %position, %count, %first, %end;
  .reg .b32 %quad, %token, %left, %place, %n, %low, %high, %key, %r<4>, %row_bytes;
  .reg .b32 %slice, %slices, %others, %contained;
  .reg .b32 %c<4>, %k<2>, %seed<2>, %sequence<2>, %b<4>;
  .reg .b64 %logits, %rows, %out, %best, %ranked, %at, %joins, %x<4>;
  .reg .f32 %temperature, %penalty, %score, %bound, %floor, %f<4>, %s<4>;
  .reg .f64 %d<6>;
  // griddepcontrol.launch_dependents;
  // griddepcontrol.wait;
  ld.param.u64 %logits, [logits_];
  ld.param.u64 %rows, [rows_];
  ld.param.u64 %out, [best_];
  ld.param.u64 %joins, [joins_];
  ld.param.u32 %count, [count_];
  ld.param.u32 %first, [first_];
  ld.param.u32 %row_bytes, [row_bytes_];
  ld.param.u32 %slices, [slices_];
  cvta.to.global.u64 %logits, %logits;
  cvta.to.global.u64 %rows, %rows;
  cvta.to.global.u64 %out, %out;
  cvta.to.global.u64 %joins, %joins;
  mov.u32 %row, %ctaid.x;
  rem.u32 %slice, %row, %slices;
  div.u32 %row, %row, %slices;
  sub.u32 %others, %slices, 1;
  mov.u32 %thread, %tid.x;
  and.b32 %lane, %thread, 31;
  shr.u32 %warp, %thread, 5;
  mul.wide.u32 %x0, %row, 8;
  add.u64 %out, %out, %x0;
  mul.wide.u32 %x0, %row, 16;
  add.u64 %joins, %joins, %x0;
  mul.wide.u32 %x0, %row, %row_bytes;
  add.u64 %rows, %rows, %x0;
  ld.global.u32 %active, [%rows];
  ld.global.u32 %noisy, [%rows+4];
  ld.global.f32 %temperature, [%rows+8];
  ld.global.u32 %position, [%rows+12];
  ld.global.u32 %seed0, [%rows+16];
  ld.global.u32 %seed1, [%rows+20];
  ld.global.u32 %sequence0, [%rows+24];
  ld.global.u32 %sequence1, [%rows+28];
  ld.global.f32 %penalty, [%rows+32];
  ld.global.u32 %shown, [%rows+36];
  add.u32 %end, %first, %count;
  shr.u32 %quad, %first, 2;
  mad.lo.u32 %quad, %slice, 512, %quad;
  add.u32 %quad, %quad, %thread;
  shl.b32 %token, %quad, 2;
  sub.u32 %place, %token, %first;
LOAD
  mov.u64 %best, 0x8000000000000000;
  mov.f32 %floor, 0fFF800000;
  setp.eq.u32 %p0, %active, 0;
  @%p0 bra INACTIVE;
SCORES
  setp.ne.u32 %p0, %shown, 0;
  @%p0 bra LARGEST;
  setp.ne.u32 %p7, %noisy, 0;
  @!%p7 bra RANK;
PHILOX
BOUNDS
SHARE_FLOOR
  abs.f32 %f0, %floor;
  mul.rn.f32 %f0, %f0, MARGIN;
  sub.rn.f32 %floor, %floor, %f0;
RANK:
  mov.u32 %left, 4;
CHOOSE_ONE:
  setp.lt.u32 %p1, %token, %first;
  @%p1 bra CHOOSE_NEXT;
  setp.ge.u32 %p1, %token, %end;
  @%p1 bra CHOSEN;
  mov.f32 %score, %s0;
  @!%p7 bra HAVE;
  not.b32 %n, %b0;
  clz.b32 %n, %n;
  add.u32 %n, %n, 1;
  cvt.rn.f32.u32 %bound, %n;
  mul.rn.f32 %bound, %bound, LOG2;
  add.rn.f32 %bound, %bound, ABOVE;
  add.rn.f32 %bound, %score, %bound;
  setp.lt.f32 %p1, %bound, %floor;
  @%p1 bra CHOOSE_NEXT;
  cvt.rn.f64.u32 %d0, %b0;
  add.rn.f64 %d0, %d0, HALF;
  mul.rn.f64 %d0, %d0, UNIT;
LOG
  neg.f64 %d0, %d0;
LOG
  neg.f64 %d0, %d0;
  cvt.f64.f32 %d1, %score;
  add.rn.f64 %d0, %d1, %d0;
  cvt.rn.f32.f64 %score, %d0;
HAVE:
KEY
  max.s64 %best, %best, %ranked;
CHOOSE_NEXT:
ROTATE
  @%p1 bra CHOOSE_ONE;
CHOSEN:
SHARE_BEST
  setp.ne.u32 %p0, %thread, 0;
  @%p0 bra DONE;
  setp.eq.u32 %p0, %others, 0;
  @%p0 bra WRITE;
  xor.b64 %best, %best, 0x8000000000000000;
  red.relaxed.gpu.global.max.u64 [%joins], %best;
  atom.acq_rel.gpu.global.inc.u32 %r0, [%joins+8], %others;
  setp.ne.u32 %p0, %r0, %others;
  @%p0 bra DONE;
  mov.u64 %x0, 0;
  atom.relaxed.gpu.global.exch.b64 %best, [%joins], %x0;
  xor.b64 %best, %best, 0x8000000000000000;
  bra WRITE;
INACTIVE:
  setp.ne.u32 %p0, %slice, 0;
  @%p0 bra DONE;
WRITE:
  setp.ne.u32 %p0, %thread, 0;
  @%p0 bra DONE;
  st.global.u64 [%out], %best;
DONE:
  ret;
LARGEST:
FIND_LARGEST
  bra WRITE;
}
)";

/// Computes %ranked from %score and %token.
constexpr const char *key = R"(  add.rn.f32 %f0, %score, 0f00000000;
  mov.b32 %key, %f0;
  shr.s32 %r0, %key, 31;
  and.b32 %r0, %r0, 0x7fffffff;
  xor.b32 %key, %key, %r0;
  setp.nan.f32 %p1, %score, %score;
  @%p1 mov.b32 %key, 0x7fffffff;
  not.b32 %low, %token;
  mov.b64 %ranked, {%low, %key};
)";

/// Advances to the next of four tokens, its score, and its bits.
constexpr const char *rotate = R"(  mov.b32 %b0, %b1;
  mov.b32 %b1, %b2;
  mov.b32 %b2, %b3;
  mov.b32 %s0, %s1;
  mov.b32 %s1, %s2;
  mov.b32 %s2, %s3;
  add.u32 %token, %token, 1;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p1, %left, 0;
)";

/// Applies the penalty and the temperature to score N of a quad.
constexpr const char *score = R"(  shr.u32 %r0, %contained, N;
  and.b32 %r0, %r0, 1;
  setp.eq.u32 %p4, %r0, 0;
  @%p4 bra PENALIZED_N;
  setp.lt.f32 %p4, %sN, 0f00000000;
  @%p4 mul.rn.f32 %sN, %sN, %penalty;
  @!%p4 div.rn.f32 %sN, %sN, %penalty;
PENALIZED_N:
  div.rn.f32 %sN, %sN, %temperature;
)";

/// Raises %floor to the lower bound of score N of a quad with noise.
constexpr const char *bound = R"(  not.b32 %n, %bN;
  clz.b32 %n, %n;
  cvt.rn.f32.u32 %bound, %n;
  mul.rn.f32 %bound, %bound, LOG2;
  sub.rn.f32 %bound, %bound, BELOW;
  setp.eq.u32 %p1, %n, 0;
  @%p1 mov.f32 %bound, LEAST;
  add.rn.f32 %bound, %sN, %bound;
  @%validN max.f32 %floor, %floor, %bound;
)";

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// Repeats a text for each token of a quad.
std::string forQuad(const std::string &text) {
  std::string all;
  for (const char *n : {"0", "1", "2", "3"})
    all += replaced(text, "N", n);
  return all;
}

std::string number(double value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0d%016llX",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text;
}
std::string number(float value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0f%08X", std::bit_cast<uint32_t>(value));
  return text;
}

/// Loads the logits of a quad into %s0 to %s3, by one access if all four are in the range and
/// aligned. Tokens outside of the range have a logit of 0 and a false %valid.
std::string loadQuad(const char *type, int bytes, const char *widen) {
  bool isFloat = bytes == 4;
  std::string n = std::to_string(bytes), text = "  mul.wide.s32 %x0, %place, " + n +
                                                ";\n  mul.wide.u32 %x1, %row, %count;\n"
                                                "  mad.lo.u64 %logits, %x1, " +
                                                n + ", %logits;\n  add.s64 %at, %logits, %x0;\n";
  std::string to = isFloat ? "%s" : "%h";
  text += forQuad("  add.u32 %r0, %token, N;\n  setp.ge.u32 %validN, %r0, %first;\n"
                  "  setp.lt.and.u32 %validN, %r0, %end, %validN;\n  mov.b" +
                  std::to_string(8 * bytes) + " " + to + "N, 0;\n");
  text += "  cvt.u32.u64 %r0, %at;\n  and.b32 %r0, %r0, " + std::to_string(4 * bytes - 1) +
          ";\n  setp.eq.and.u32 %p0, %r0, 0, %valid0;\n  and.pred %p0, %p0, %valid3;\n"
          "  @%p0 bra WHOLE;\n";
  for (int i = 0; i < 4; ++i)
    text += "  @%valid" + std::to_string(i) + " ld.global." + type + " " + to + std::to_string(i) +
            ", [%at+" + std::to_string(i * bytes) + "];\n";
  text += std::string("  bra LOADED;\nWHOLE:\n  ld.global.v4.") + type + " {" + to + "0, " + to +
          "1, " + to + "2, " + to + "3}, [%at];\nLOADED:\n";
  return text + forQuad(widen);
}

/// Computes scores from the logits of a quad. One read covers its bits of the sequence's tokens.
std::string scores() {
  return "  mov.u32 %contained, 0;\n  setp.neu.f32 %p6, %penalty, 0f3F800000;\n"
         "  setp.lt.and.u32 %p6, %token, %end, %p6;\n  @!%p6 bra READ;\n"
         "  shr.u32 %r0, %token, 5;\n  mul.wide.u32 %x0, %r0, 4;\n  add.u64 %at, %rows, %x0;\n"
         "  ld.global.u32 %contained, [%at+48];\n  and.b32 %r1, %token, 31;\n"
         "  shr.u32 %contained, %contained, %r1;\nREAD:\n" +
         forQuad(score);
}

/// Computes %b0 to %b3 from %quad: Draw::ofQuad.
std::string philoxRounds() {
  std::string text = "  mov.b32 %c0, %quad;\n  mov.b32 %c1, %position;\n"
                     "  mov.b32 %c2, %sequence0;\n  mov.b32 %c3, %sequence1;\n"
                     "  mov.b32 %k0, %seed0;\n  mov.b32 %k1, %seed1;\n";
  for (int round = 0; round < 10; ++round)
    text += "  mul.wide.u32 %x0, %c0, 0xD2511F53;\n  mul.wide.u32 %x1, %c2, 0xCD9E8D57;\n"
            "  mov.b64 {%r0, %r1}, %x0;\n  mov.b64 {%r2, %r3}, %x1;\n"
            "  xor.b32 %c0, %r3, %c1;\n  xor.b32 %c0, %c0, %k0;\n  mov.b32 %c1, %r2;\n"
            "  xor.b32 %c2, %r1, %c3;\n  xor.b32 %c2, %c2, %k1;\n  mov.b32 %c3, %r0;\n"
            "  add.u32 %k0, %k0, 0x9E3779B9;\n  add.u32 %k1, %k1, 0xBB67AE85;\n";
  for (int i = 0; i < 4; ++i)
    text += "  mov.b32 %b" + std::to_string(i) + ", %c" + std::to_string(i) + ";\n";
  return text;
}

/// %d0 = logOf(%d0)
std::string logarithm() {
  std::string text = "  mov.b64 %x0, %d0;\n  shr.u64 %x1, %x0, 52;\n  cvt.u32.u64 %n, %x1;\n"
                     "  sub.s32 %n, %n, 1023;\n  and.b64 %x0, %x0, 0xfffffffffffff;\n"
                     "  or.b64 %x0, %x0, 0x3ff0000000000000;\n  mov.b64 %d1, %x0;\n"
                     "  setp.gt.f64 %p2, %d1, " +
                     number(1.4142135623730951) + ";\n  @%p2 mul.rn.f64 %d1, %d1, " + number(0.5) +
                     ";\n  @%p2 add.s32 %n, %n, 1;\n"
                     "  sub.rn.f64 %d2, %d1, " +
                     number(1.0) + ";\n  add.rn.f64 %d3, %d1, " + number(1.0) +
                     ";\n  div.rn.f64 %d2, %d2, %d3;\n  mul.rn.f64 %d3, %d2, %d2;\n"
                     "  mov.f64 %d4, " +
                     number(1.0 / 21) + ";\n";
  for (int k = 19; k >= 1; k -= 2)
    text += "  mul.rn.f64 %d4, %d4, %d3;\n  add.rn.f64 %d4, %d4, " + number(1.0 / k) + ";\n";
  return text +
         "  add.rn.f64 %d2, %d2, %d2;\n  mul.rn.f64 %d4, %d2, %d4;\n"
         "  cvt.rn.f64.s32 %d5, %n;\n  mul.rn.f64 %d5, %d5, " +
         number(0.69314718055994531) + ";\n  add.rn.f64 %d0, %d4, %d5;\n";
}

/// Broadcasts the block's maximum %floor to all threads.
std::string shareFloor() {
  std::string text;
  for (int distance : {16, 8, 4, 2, 1})
    text += "  shfl.sync.bfly.b32 %f0, %floor, " + std::to_string(distance) +
            ", 31, -1;\n  max.f32 %floor, %floor, %f0;\n";
  text += "  mov.u32 %r0, floors;\n  mad.lo.u32 %r1, %warp, 4, %r0;\n"
          "  setp.eq.u32 %p0, %lane, 0;\n  @%p0 st.shared.f32 [%r1], %floor;\n  bar.sync 0;\n";
  for (int warp = 0; warp < 16; ++warp)
    text += "  ld.shared.f32 %f0, [%r0+" + std::to_string(4 * warp) +
            "];\n  max.f32 %floor, %floor, %f0;\n";
  return text;
}

/// Reduces the block's maximum %best to the first thread.
std::string shareBest() {
  std::string text;
  for (int distance : {16, 8, 4, 2, 1})
    text += "  mov.b64 {%low, %high}, %best;\n  shfl.sync.bfly.b32 %low, %low, " +
            std::to_string(distance) + ", 31, -1;\n  shfl.sync.bfly.b32 %high, %high, " +
            std::to_string(distance) +
            ", 31, -1;\n  mov.b64 %ranked, {%low, %high};\n  max.s64 %best, %best, %ranked;\n";
  text += "  mov.u32 %r0, largest;\n  mad.lo.u32 %r1, %warp, 8, %r0;\n"
          "  setp.eq.u32 %p0, %lane, 0;\n  @%p0 st.shared.u64 [%r1], %best;\n  bar.sync 0;\n";
  for (int warp = 0; warp < 16; ++warp)
    text += "  ld.shared.u64 %ranked, [%r0+" + std::to_string(8 * warp) +
            "];\n  max.s64 %best, %best, %ranked;\n";
  return text;
}

} // namespace

const char *samplingKernel(int32_t dtype) {
  return dtype == TPC_F32    ? samplingKernelNames[0]
         : dtype == TPC_F16  ? samplingKernelNames[1]
         : dtype == TPC_BF16 ? samplingKernelNames[2]
                             : nullptr;
}

std::string samplingKernels() {
  std::string all = ".version 7.0\n.target sm_80\n.address_size 64\n";
  auto add = [&](const std::string &name, const char *type, int bytes, const char *widen) {
    std::string text = head;
    // Replaces the outermost fragments first, because their text contains others.
    for (const auto &[what, by] :
         {std::pair<std::string, std::string>{"\nFIND_LARGEST\n", "\n" + findLargest()},
          {"SHARE_FLOOR", shareFloor()},
          {"SHARE_BEST", shareBest()},
          {"\nPHILOX\n", "\n" + philoxRounds()},
          {"\nLOG\n", "\n" + logarithm()},
          {"\nROTATE\n", "\n" + std::string(rotate)},
          {"\nLOAD\n", "\n" + loadQuad(type, bytes, widen)},
          {"\nSCORES\n", "\n" + scores()},
          {"\nBOUNDS\n", "\n" + forQuad(bound)},
          {"\nKEY\n", "\n" + std::string(key)},
          {"\nLARGEST_MEMORY\n", "\n" + std::string(largestMemory)},
          // Lower bounds of noise: -log(u) <= 2 log 2 (1 - u) if u >= 1/2.
          {"BELOW", number(0.34f)},
          {"LEAST", number(-3.2f)},
          {"LOG2", number(0.6931472f)},
          // gumbelBound
          {"ABOVE", number(1e-4f)},
          {"MARGIN", number(1e-5f)},
          {"HALF", number(0.5)},
          {"UNIT", number(0x1p-32)},
          {"NAME", name}})
      text = replaced(text, what, by);
    all += text;
  };
  add("f32", "f32", 4, "");
  add("f16", "b16", 2, "  cvt.f32.f16 %sN, %hN;\n");
  add("bf16", "b16", 2, "  mov.b32 %r0, {0, %hN};\n  mov.b32 %sN, %r0;\n");
  return all + sumBinsKernel() + advanceInputsKernel();
}

} // namespace tpc::rt::cuda
