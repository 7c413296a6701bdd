//===- PlannedDevices.h - devices that only count what they would hold ----===//

#ifndef TPC_RT_CORE_PLANNEDDEVICES_H
#define TPC_RT_CORE_PLANNEDDEVICES_H

#include "core/Device.h"

namespace tpc::rt {

/// What has been chosen, without memory behind it: those of DeviceKind::counted, where they are
/// counted before each new step, or processors, of which it is worth its time only for what runs
/// for long.
const DeviceKind &plannedDevices();

} // namespace tpc::rt

#endif // TPC_RT_CORE_PLANNEDDEVICES_H
