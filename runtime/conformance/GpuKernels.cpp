//===- GpuKernels.cpp - PTX kernels of the device conformance tests -------===//

#include "GpuKernels.h"
#include <iterator>

namespace tpc::rt::conformance {
namespace {

// A grid-stride loop over rows below env[0]. %rd2 is the row; %rd0 to %rd3 are reserved.
#define ROWS_BEGIN                                                                                 \
  "  .reg .pred %p<4>;\n"                                                                          \
  "  .reg .b32 %r<8>;\n"                                                                           \
  "  .reg .f32 %f<4>;\n"                                                                           \
  "  .reg .b64 %rd<16>;\n"                                                                         \
  "  ld.param.u64 %rd0, [env];\n"                                                                  \
  "  ld.global.u64 %rd1, [%rd0];\n"                                                                \
  "  mov.u32 %r0, %ctaid.x;\n"                                                                     \
  "  mov.u32 %r1, %ntid.x;\n"                                                                      \
  "  mov.u32 %r2, %tid.x;\n"                                                                       \
  "  mad.lo.s32 %r3, %r0, %r1, %r2;\n"                                                             \
  "  mov.u32 %r4, %nctaid.x;\n"                                                                    \
  "  mul.lo.s32 %r5, %r4, %r1;\n"                                                                  \
  "  cvt.s64.s32 %rd2, %r3;\n"                                                                     \
  "  cvt.s64.s32 %rd3, %r5;\n"                                                                     \
  "LOOP:\n"                                                                                        \
  "  setp.ge.s64 %p0, %rd2, %rd1;\n"                                                               \
  "  @%p0 bra DONE;\n"
#define ROWS_END                                                                                   \
  "NEXT:\n"                                                                                        \
  "  add.s64 %rd2, %rd2, %rd3;\n"                                                                  \
  "  bra LOOP;\n"                                                                                  \
  "DONE:\n"                                                                                        \
  "  ret;\n"                                                                                       \
  "}\n"

constexpr const char *ptx =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry twice(.param .u64 env, .param .u64 status, .param .u64 x, .param .u64 out)\n"
    "{\n" ROWS_BEGIN "  ld.param.u64 %rd4, [x];\n"
    "  ld.param.u64 %rd5, [out];\n"
    "  shl.b64 %rd6, %rd2, 2;\n"
    "  add.s64 %rd4, %rd4, %rd6;\n"
    "  add.s64 %rd5, %rd5, %rd6;\n"
    "  ld.global.f32 %f0, [%rd4];\n"
    "  ld.global.u64 %rd7, [%rd0+8];\n"
    "  cvt.rn.f32.s64 %f1, %rd7;\n"
    "  add.rn.f32 %f2, %f0, %f0;\n"
    "  add.rn.f32 %f2, %f2, %f1;\n"
    "  st.global.f32 [%rd5], %f2;\n" ROWS_END
    ".visible .entry count(.param .u64 env, .param .u64 status, .param .u64 seen)\n"
    "{\n" ROWS_BEGIN "  ld.param.u64 %rd4, [seen];\n"
    "  shl.b64 %rd6, %rd2, 2;\n"
    "  add.s64 %rd4, %rd4, %rd6;\n"
    "  ld.global.u32 %r6, [%rd4];\n"
    "  add.s32 %r6, %r6, 1;\n"
    "  st.global.u32 [%rd4], %r6;\n" ROWS_END
    ".visible .entry look_up(.param .u64 env, .param .u64 status)\n"
    "{\n" ROWS_BEGIN "  and.b64 %rd4, %rd2, 1;\n"
    "  setp.eq.s64 %p1, %rd4, 0;\n"
    "  @%p1 bra NEXT;\n"
    "  ld.param.u64 %rd5, [status];\n"
    "  mov.u32 %r6, 1;\n"
    "  atom.global.exch.b32 %r7, [%rd5], %r6;\n"
    "  setp.ne.s32 %p2, %r7, 0;\n"
    "  @%p2 bra NEXT;\n"
    "  st.global.u32 [%rd5+4], %r6;\n"
    "  add.s64 %rd6, %rd2, 100;\n"
    "  st.global.u64 [%rd5+8], %rd6;\n"
    "  mov.u64 %rd7, 7;\n"
    "  st.global.u64 [%rd5+16], %rd7;\n" ROWS_END;

int64_t one(const int64_t *) { return 1; }
int64_t rows(const int64_t *env) { return env[0]; }

constexpr tpc_gpu_kernel kernels[] = {
    {"look_up", one, rows, TPC_GPU_ELEMENTS, 256, 1, 0, 0},
    {"twice", one, rows, TPC_GPU_ELEMENTS, 256, 1, 2, 0},
    {"count", one, rows, TPC_GPU_ELEMENTS, 256, 1, 1, 0},
};

} // namespace

const tpc_gpu_code &gpuKernels() {
  static const tpc_gpu_code code = {80,     std::size(kernels), 0, 0, 0, ptx, kernels, nullptr,
                                    nullptr};
  return code;
}

} // namespace tpc::rt::conformance
