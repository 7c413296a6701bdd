//===- AccumulateKernels.cpp - Kernel that adds gradients of micro-batches ===//

#include "cuda/library/AccumulateKernels.h"

namespace tpc::rt::cuda {

std::string accumulateKernels() {
  return R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry tpc_accumulate(.param .u64 sum_, .param .u64 from_, .param .u64 count_)
.maxntid 256, 1, 1
{
  .reg .pred %p;
  .reg .b32 %block, %blocks, %thread, %threads;
  .reg .b64 %sum, %from, %count, %i, %step, %to, %at, %x;
  .reg .f32 %own, %more;
  // griddepcontrol.launch_dependents;
  // griddepcontrol.wait;
  ld.param.u64 %sum, [sum_];
  ld.param.u64 %from, [from_];
  ld.param.u64 %count, [count_];
  cvta.to.global.u64 %sum, %sum;
  cvta.to.global.u64 %from, %from;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mul.wide.u32 %i, %block, %threads;
  cvt.u64.u32 %x, %thread;
  add.u64 %i, %i, %x;
  mul.wide.u32 %step, %blocks, %threads;
LOOP:
  setp.ge.u64 %p, %i, %count;
  @%p bra DONE;
  shl.b64 %x, %i, 2;
  add.u64 %to, %sum, %x;
  add.u64 %at, %from, %x;
  ld.global.f32 %own, [%to];
  ld.global.f32 %more, [%at];
  add.rn.f32 %own, %own, %more;
  st.global.f32 [%to], %own;
  add.u64 %i, %i, %step;
  bra LOOP;
DONE:
  ret;
}
)";
}

} // namespace tpc::rt::cuda
