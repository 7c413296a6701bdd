//===- DryRunDevices.h - Selection of dry-run devices for memory estimates ====//

#ifndef TPC_RT_CORE_DRYRUNDEVICES_H
#define TPC_RT_CORE_DRYRUNDEVICES_H

#include "core/Device.h"

namespace tpc::rt {

/// Returns the dry-run version of the selected device kind, which allocates no memory. For CPUs,
/// whose kind has none (DeviceKind::dryRun), returns dry-run CPUs.
const DeviceKind &dryRunDevices();

} // namespace tpc::rt

#endif // TPC_RT_CORE_DRYRUNDEVICES_H
