//===- PlannedDevices.h - Selection of dry-run devices for memory estimates ===//

#ifndef TPC_RT_CORE_PLANNEDDEVICES_H
#define TPC_RT_CORE_PLANNEDDEVICES_H

#include "core/Device.h"

namespace tpc::rt {

/// Returns a device kind that allocates no memory: the dry-run version of the selected kind
/// (DeviceKind::counted) if memory is estimated before each new step. Otherwise returns null for
/// CPUs, where an estimate pays only for long runs.
const DeviceKind &plannedDevices();

} // namespace tpc::rt

#endif // TPC_RT_CORE_PLANNEDDEVICES_H
