//===- AssignDevices.h - Assignment of devices to ranks -------------------===//

#ifndef TPC_RT_PROGRAM_ASSIGNDEVICES_H
#define TPC_RT_PROGRAM_ASSIGNDEVICES_H

#include "core/World.h"
#include "program/Manifest.h"

namespace tpc::rt {

/// Assigns devices of the kind that the program is compiled for: one per rank or, with `share`,
/// possibly one for several ranks. Collective over the session, which may be null. Throws
/// UserError.
const DeviceKind &assignDevices(const tpc_program &program, Session *session,
                                const Launcher &launcher, const Manifest &manifest, bool share);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ASSIGNDEVICES_H
