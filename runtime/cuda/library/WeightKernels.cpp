//===- WeightKernels.cpp - Kernels that convert, pack, and generate weights ===//
//
// These kernels are hand-written PTX, because they do not depend on the program. Like all kernels,
// they state the rounding of float operations (test/Unit/Cuda/WeightKernelsTest.cpp). The transfer
// from the host limits their speed, so the divisions for indices cost nothing.
//
// The only parameter is the address of a work description, followed by its factors.
// CudaWeightLoader.cpp defines both as structs; the numbers below are the offsets of their fields.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/WeightKernels.h"
#include "tpc/runtime.h"
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

// Each thread computes elements %i of the work. %target is the destination of the element, and
// %place its index in the source.
constexpr const char *head = R"(
.visible .entry NAME(.param .u64 parameter)
.maxntid 256, 1, 1
{
  .reg .pred %p<4>;
  .reg .b16 %h<4>;
  .reg .b32 %i, %step, %count, %factors, %left, %rest, %size, %quotient, %index, %r<8>;
  .reg .b64 %work, %factor, %source, %target, %place, %first, %wide, %stride, %table, %x<8>;
  .reg .f32 %f<4>;
  .reg .f64 %d;
  ld.param.u64 %work, [parameter];
  cvta.to.global.u64 %work, %work;
  ld.global.u32 %count, [%work];
  ld.global.u32 %factors, [%work+4];
  ld.global.u64 %first, [%work+24];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %i, %r0, %r1, %r2;
  mul.lo.u32 %step, %r1, %r3;
LOOP:
  setp.ge.u32 %p0, %i, %count;
  @%p0 bra DONE;
  mov.u32 %rest, %i;
  mov.u32 %left, %factors;
  mov.u64 %target, 0;
  mov.u64 %place, %first;
  mul.wide.u32 %factor, %factors, 32;
  add.u64 %factor, %work, %factor;
FACTOR:
  setp.eq.u32 %p1, %left, 0;
  @%p1 bra FOUND;
  sub.u32 %left, %left, 1;
  ld.global.u32 %size, [%factor+16];
  div.u32 %quotient, %rest, %size;
  mul.lo.u32 %index, %quotient, %size;
  sub.u32 %index, %rest, %index;
  mov.u32 %rest, %quotient;
  cvt.u64.u32 %wide, %index;
  ld.global.u64 %stride, [%factor+24];
  mad.lo.s64 %target, %wide, %stride, %target;
  ld.global.u64 %stride, [%factor+32];
  ld.global.u64 %table, [%factor+40];
  sub.u64 %factor, %factor, 32;
  setp.eq.u64 %p2, %table, 0;
  @%p2 bra EVEN;
  mad.lo.s64 %table, %wide, 8, %table;
  ld.global.u64 %stride, [%table];
  add.s64 %place, %place, %stride;
  bra FACTOR;
EVEN:
  mad.lo.s64 %place, %wide, %stride, %place;
  bra FACTOR;
FOUND:
  ld.global.u64 %source, [%work+8];
  ld.global.u64 %x0, [%work+16];
  mad.lo.s64 %target, %target, TO, %x0;
)";
constexpr const char *fromSource = "  mad.lo.s64 %source, %place, FROM, %source;\n";
constexpr const char *tail = R"(  add.u32 %i, %i, %step;
  bra LOOP;
DONE:
  ret;
}
)";

/// bits = mix(key + golden * (place + 1)); %f1 = mean + scale * (the sum of the bits' quarters -
/// 131070).
constexpr const char *drawing = R"(  ld.global.u64 %x1, [%work+32];
  ld.global.f32 %f2, [%work+40];
  ld.global.f32 %f3, [%work+44];
  add.u64 %x2, %place, 1;
  mad.lo.u64 %x1, %x2, 0x9e3779b97f4a7c15, %x1;
  shr.u64 %x2, %x1, 30;
  xor.b64 %x1, %x1, %x2;
  mul.lo.u64 %x1, %x1, 0xbf58476d1ce4e5b9;
  shr.u64 %x2, %x1, 27;
  xor.b64 %x1, %x1, %x2;
  mul.lo.u64 %x1, %x1, 0x94d049bb133111eb;
  shr.u64 %x2, %x1, 31;
  xor.b64 %x1, %x1, %x2;
  mov.b64 {%r4, %r5}, %x1;
  and.b32 %r6, %r4, 65535;
  shr.u32 %r4, %r4, 16;
  add.u32 %r4, %r4, %r6;
  and.b32 %r6, %r5, 65535;
  shr.u32 %r5, %r5, 16;
  add.u32 %r5, %r5, %r6;
  add.u32 %r4, %r4, %r5;
  sub.u32 %r4, %r4, 131070;
  cvt.rn.f32.s32 %f1, %r4;
  mul.rn.f32 %f1, %f1, %f3;
  add.rn.f32 %f1, %f2, %f1;
)";
constexpr const char *roundToHalf = "  cvt.rn.f16.f32 %h1, %f1;\n",
                     *roundToBfloat = "  cvt.rn.bf16.f32 %h1, %f1;\n",
                     *fromHalf = "  cvt.f32.f16 %f1, %h1;\n",
                     *fromBfloat = "  mov.b32 %r4, {0, %h1};\n  mov.b32 %f1, %r4;\n",
                     *storeFloat = "  st.global.f32 [%target], %f1;\n",
                     *storeHalf = "  st.global.b16 [%target], %h1;\n";

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

} // namespace

const char *copyKernel(int64_t bytes) {
  switch (bytes) {
  case 1:
    return "tpc_copy_1";
  case 2:
    return "tpc_copy_2";
  case 4:
    return "tpc_copy_4";
  case 8:
    return "tpc_copy_8";
  }
  throw std::runtime_error("internal error: weights of " + std::to_string(bytes) + " bytes each");
}

const char *convertKernel(int32_t source) {
  switch (source) {
  case TPC_F64:
    return "tpc_convert_f64";
  case TPC_F16:
    return "tpc_convert_f16";
  case TPC_BF16:
    return "tpc_convert_bf16";
  case TPC_I64:
    return "tpc_convert_i64";
  case TPC_I32:
    return "tpc_convert_i32";
  case TPC_I16:
    return "tpc_convert_i16";
  case TPC_I8:
    return "tpc_convert_i8";
  case TPC_U8:
  case TPC_BOOL:
    return "tpc_convert_u8";
  }
  throw std::runtime_error("internal error: weights of type " + std::to_string(source));
}

const char *drawKernel(int32_t dtype, int32_t source) {
  if (dtype == TPC_F16)
    return "tpc_draw_f16";
  if (dtype == TPC_BF16)
    return "tpc_draw_bf16";
  return source == TPC_F16    ? "tpc_draw_f32_of_f16"
         : source == TPC_BF16 ? "tpc_draw_f32_of_bf16"
                              : "tpc_draw_f32";
}

std::string weightKernels() {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  auto add = [&](const std::string &name, int to, const std::string &body) {
    text += replaced(replaced(head, "NAME", name), "TO", std::to_string(to)) + body + tail;
  };
  // Copies, and conversions to f32.
  auto move = [&](const std::string &name, int from, int to, const std::string &body) {
    add("tpc_" + name, to, replaced(fromSource, "FROM", std::to_string(from)) + body);
  };
  move("copy_1", 1, 1, "  ld.global.u8 %h1, [%source];\n  st.global.u8 [%target], %h1;\n");
  move("copy_2", 2, 2, "  ld.global.b16 %h1, [%source];\n  st.global.b16 [%target], %h1;\n");
  move("copy_4", 4, 4, "  ld.global.b32 %r4, [%source];\n  st.global.b32 [%target], %r4;\n");
  move("copy_8", 8, 8, "  ld.global.b64 %x1, [%source];\n  st.global.b64 [%target], %x1;\n");
  auto convert = [&](const std::string &name, int from, const std::string &body) {
    move("convert_" + name, from, 4, body + storeFloat);
  };
  convert("f64", 8, "  ld.global.f64 %d, [%source];\n  cvt.rn.f32.f64 %f1, %d;\n");
  convert("f16", 2, std::string("  ld.global.b16 %h1, [%source];\n") + fromHalf);
  convert("bf16", 2, std::string("  ld.global.b16 %h1, [%source];\n") + fromBfloat);
  convert("i64", 8, "  ld.global.s64 %x1, [%source];\n  cvt.rn.f32.s64 %f1, %x1;\n");
  convert("i32", 4, "  ld.global.s32 %r4, [%source];\n  cvt.rn.f32.s32 %f1, %r4;\n");
  convert("i16", 2, "  ld.global.s16 %h1, [%source];\n  cvt.rn.f32.s16 %f1, %h1;\n");
  convert("i8", 1, "  ld.global.s8 %r4, [%source];\n  cvt.rn.f32.s32 %f1, %r4;\n");
  convert("u8", 1, "  ld.global.u8 %r4, [%source];\n  cvt.rn.f32.s32 %f1, %r4;\n");

  auto draw = [&](const std::string &name, int to, const std::string &body) {
    add("tpc_draw_" + name, to, drawing + body);
  };
  draw("f32", 4, storeFloat);
  draw("f16", 2, std::string(roundToHalf) + storeHalf);
  draw("bf16", 2, std::string(roundToBfloat) + storeHalf);
  // Numbers rounded as in a 16-bit file, as f32.
  draw("f32_of_f16", 4, std::string(roundToHalf) + fromHalf + storeFloat);
  draw("f32_of_bf16", 4, std::string(roundToBfloat) + fromBfloat + storeFloat);
  return text;
}

} // namespace tpc::rt::cuda
