//===- PlannedDevices.h - Dry-run devices for memory estimates ------------===//

#ifndef TPC_RT_CORE_PLANNEDDEVICES_H
#define TPC_RT_CORE_PLANNEDDEVICES_H

#include "core/Device.h"

namespace tpc::rt {

/// Returns the selected device kind without memory behind it: its dry-run kind
/// (DeviceKind::counted) if memory is counted before each new step. Otherwise the CPU kind;
/// counting there pays only for long runs.
const DeviceKind &plannedDevices();

} // namespace tpc::rt

#endif // TPC_RT_CORE_PLANNEDDEVICES_H
