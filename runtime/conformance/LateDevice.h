//===- LateDevice.h - a device that does what it may ----------------------===//
//
// For tests. Processors, but as unkind as Device.h allows:
//
// * work is put off until somebody has to see what it does, or by chance before, and is then done
//   in any order in which nothing is done before what it needs, or before what still needs what it
//   overwrites;
// * rows of a launch run in pieces of any size, in any order, and some beyond the last;
// * memory is not accessible but while work is done, so that host code that reads or writes a
// tensor
//   ends the program, as it does where the device has memory of its own;
// * fresh memory, what frames get and what is written to the device next are filled with NaN, and
//   memory that is released is unmapped; there are inaccessible pages behind each piece;
// * shared tensors are copied, when work gets to them.
//
// TPC_LATE_SEED chooses another course of chance.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_LATEDEVICE_H
#define TPC_RT_CONFORMANCE_LATEDEVICE_H

#include "core/Device.h"

namespace tpc::rt::conformance {

const DeviceKind &lateDevices();
/// The same with links between the ranks of this process (LateBackend.h).
const DeviceKind &linkedLateDevices();

/// How often work of this process was done before some that had been called for earlier.
int64_t countOvertakings();

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_LATEDEVICE_H
