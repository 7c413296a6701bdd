//===- Kernels.h - Correct kernels for tests to modify --------------------===//

#ifndef TPC_TEST_UNIT_PTX_KERNELS_H
#define TPC_TEST_UNIT_PTX_KERNELS_H

namespace ptx {

/// layer_norm(x, gamma, beta, y, columns): one row per block, 16 bytes per thread at a time.
/// `columns` is a multiple of 4. Sums use butterflies in warps and one exchange in shared memory.
inline constexpr const char *layerNormText = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry layer_norm(
  .param .u64 .ptr .global .align 16 x, .param .u64 .ptr .global .align 16 gamma,
  .param .u64 .ptr .global .align 16 beta, .param .u64 .ptr .global .align 16 y,
  .param .u32 columns)
.maxntid 1024, 1, 1
{
  .shared .align 4 .b8 sums[128];
  .shared .align 4 .b8 squares[128];
  .reg .pred %p<8>;
  .reg .b32 %r<64>;
  .reg .b64 %rd<24>;

  ld.param.b64 %rd1, [x];
  ld.param.b64 %rd2, [gamma];
  ld.param.b64 %rd3, [beta];
  ld.param.b64 %rd4, [y];
  ld.param.b32 %r1, [columns];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ntid.x;
  mul.wide.u32 %rd5, %r2, %r1;
  shl.b64 %rd5, %rd5, 2;
  add.s64 %rd6, %rd1, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  shl.b32 %r5, %r3, 2;
  shl.b32 %r6, %r4, 2;
  mov.b32 %r10, 0f00000000;
  mov.b32 %r11, 0f00000000;
  mov.b32 %r7, %r5;
  setp.ge.u32 %p1, %r7, %r1;
  @%p1 bra $L_summed;
$L_sum:
  mul.wide.u32 %rd8, %r7, 4;
  add.s64 %rd9, %rd6, %rd8;
  ld.global.nc.v4.b32 {%r12, %r13, %r14, %r15}, [%rd9];
  add.rn.f32 %r10, %r10, %r12;
  add.rn.f32 %r10, %r10, %r13;
  add.rn.f32 %r10, %r10, %r14;
  add.rn.f32 %r10, %r10, %r15;
  fma.rn.f32 %r11, %r12, %r12, %r11;
  fma.rn.f32 %r11, %r13, %r13, %r11;
  fma.rn.f32 %r11, %r14, %r14, %r11;
  fma.rn.f32 %r11, %r15, %r15, %r11;
  add.s32 %r7, %r7, %r6;
  setp.lt.u32 %p1, %r7, %r1;
  @%p1 bra $L_sum;
$L_summed:
  shfl.sync.bfly.b32 %r16, %r10, 16, 31, -1;
  add.rn.f32 %r10, %r10, %r16;
  shfl.sync.bfly.b32 %r17, %r11, 16, 31, -1;
  add.rn.f32 %r11, %r11, %r17;
  shfl.sync.bfly.b32 %r16, %r10, 8, 31, -1;
  add.rn.f32 %r10, %r10, %r16;
  shfl.sync.bfly.b32 %r17, %r11, 8, 31, -1;
  add.rn.f32 %r11, %r11, %r17;
  shfl.sync.bfly.b32 %r16, %r10, 4, 31, -1;
  add.rn.f32 %r10, %r10, %r16;
  shfl.sync.bfly.b32 %r17, %r11, 4, 31, -1;
  add.rn.f32 %r11, %r11, %r17;
  shfl.sync.bfly.b32 %r16, %r10, 2, 31, -1;
  add.rn.f32 %r10, %r10, %r16;
  shfl.sync.bfly.b32 %r17, %r11, 2, 31, -1;
  add.rn.f32 %r11, %r11, %r17;
  shfl.sync.bfly.b32 %r16, %r10, 1, 31, -1;
  add.rn.f32 %r10, %r10, %r16;
  shfl.sync.bfly.b32 %r17, %r11, 1, 31, -1;
  add.rn.f32 %r11, %r11, %r17;
  and.b32 %r18, %r3, 31;
  shr.u32 %r19, %r3, 5;
  mov.b64 %rd10, sums;
  mov.b64 %rd11, squares;
  setp.ne.s32 %p2, %r18, 0;
  @%p2 bra $L_exchanged;
  mul.wide.u32 %rd12, %r19, 4;
  add.s64 %rd13, %rd10, %rd12;
  add.s64 %rd14, %rd11, %rd12;
  st.shared.b32 [%rd13], %r10;
  st.shared.b32 [%rd14], %r11;
$L_exchanged:
  bar.sync 0;
  add.s32 %r20, %r4, 31;
  shr.u32 %r21, %r20, 5;
  mov.b32 %r10, 0f00000000;
  mov.b32 %r11, 0f00000000;
  mov.b32 %r22, 0;
$L_total:
  ld.shared.b32 %r23, [%rd10];
  ld.shared.b32 %r24, [%rd11];
  add.rn.f32 %r10, %r10, %r23;
  add.rn.f32 %r11, %r11, %r24;
  add.s64 %rd10, %rd10, 4;
  add.s64 %rd11, %rd11, 4;
  add.s32 %r22, %r22, 1;
  setp.lt.u32 %p3, %r22, %r21;
  @%p3 bra $L_total;
  cvt.rn.f32.u32 %r25, %r1;
  div.rn.f32 %r26, %r10, %r25;
  div.rn.f32 %r27, %r11, %r25;
  neg.f32 %r28, %r26;
  fma.rn.f32 %r29, %r28, %r26, %r27;
  add.rn.f32 %r30, %r29, 0f3727C5AC;
  sqrt.rn.f32 %r31, %r30;
  rcp.rn.f32 %r32, %r31;
  mov.b32 %r7, %r5;
  setp.ge.u32 %p4, %r7, %r1;
  @%p4 bra $L_end;
$L_write:
  mul.wide.u32 %rd15, %r7, 4;
  add.s64 %rd16, %rd6, %rd15;
  ld.global.nc.v4.b32 {%r33, %r34, %r35, %r36}, [%rd16];
  add.s64 %rd17, %rd2, %rd15;
  ld.global.nc.v4.b32 {%r37, %r38, %r39, %r40}, [%rd17];
  add.s64 %rd18, %rd3, %rd15;
  ld.global.nc.v4.b32 {%r41, %r42, %r43, %r44}, [%rd18];
  sub.rn.f32 %r45, %r33, %r26;
  sub.rn.f32 %r46, %r34, %r26;
  sub.rn.f32 %r47, %r35, %r26;
  sub.rn.f32 %r48, %r36, %r26;
  mul.rn.f32 %r45, %r45, %r32;
  mul.rn.f32 %r46, %r46, %r32;
  mul.rn.f32 %r47, %r47, %r32;
  mul.rn.f32 %r48, %r48, %r32;
  fma.rn.f32 %r49, %r45, %r37, %r41;
  fma.rn.f32 %r50, %r46, %r38, %r42;
  fma.rn.f32 %r51, %r47, %r39, %r43;
  fma.rn.f32 %r52, %r48, %r40, %r44;
  add.s64 %rd19, %rd7, %rd15;
  st.global.v4.b32 [%rd19], {%r49, %r50, %r51, %r52};
  add.s32 %r7, %r7, %r6;
  setp.lt.u32 %p5, %r7, %r1;
  @%p5 bra $L_write;
$L_end:
  ret;
}
)";

} // namespace ptx

#endif
