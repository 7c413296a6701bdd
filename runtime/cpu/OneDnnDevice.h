//===- OneDnnDevice.h - CPU device with oneDNN matmuls --------------------===//
//
// oneDNN computes only matmuls with weights; CpuDevice computes the rest. A matmul is split into
// blocks of fixed size, which the rank's threads compute one by one. The split, and therefore the
// bits, do not depend on the number of threads. Unlike with the built-in matmuls, the bits of a row
// may depend on the number of rows. Bias, activation and residual are applied to a block while it
// is in the cache, by the built-in functions.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_ONEDNNDEVICE_H
#define TPC_RT_CPU_ONEDNNDEVICE_H

#include "core/Device.h"

namespace tpc::rt {

/// Returns null, with the reason, if the library is not found or not usable.
const DeviceKind *oneDnnDevices(std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CPU_ONEDNNDEVICE_H
