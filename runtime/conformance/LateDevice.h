//===- LateDevice.h - Adversarial test device -----------------------------===//
//
// Computes on the CPU, but behaves as adversarially as Device.h allows:
// * Work is delayed until its result is needed, or until a random earlier time. It then runs in any
//   order that respects dependences (read after write, write after read, write after write).
// * Rows of a launch run in ranges of any size, in any order, and some beyond the last row.
// * Memory is accessible only while work runs, so that host code that accesses a tensor
//   crashes, as it would on a device with memory of its own.
// * New memory, frames, and buffers for the next write are filled with NaN. Released memory is
//   unmapped, and each block is followed by an inaccessible page.
// * Shared host tensors are copied to the device only when later work needs them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_LATEDEVICE_H
#define TPC_RT_CONFORMANCE_LATEDEVICE_H

#include "core/Device.h"

namespace tpc::rt::conformance {

const DeviceKind &lateDevices();
/// Late devices with a collective backend between the ranks of this process (LateBackend.h).
const DeviceKind &linkedLateDevices();

/// Returns the number of operations of this process that overtook an earlier one.
int64_t countOvertakings();

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_LATEDEVICE_H
