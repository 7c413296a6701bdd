//===- GpuKernels.h - PTX kernels of the device conformance tests ---------===//

#ifndef TPC_RT_CONFORMANCE_GPUKERNELS_H
#define TPC_RT_CONFORMANCE_GPUKERNELS_H

#include "tpc/gpu.h"

namespace tpc::rt::conformance {

/// `twice`, `count` and `look_up` of DeviceTest.cpp as hand-written PTX.
const tpc_gpu_code &gpuKernels();

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_GPUKERNELS_H
