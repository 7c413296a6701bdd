//===- AssignDevices.h - which rank has which device -------------------------===//

#ifndef TPC_RT_PROGRAM_ASSIGNDEVICES_H
#define TPC_RT_PROGRAM_ASSIGNDEVICES_H

#include "core/World.h"
#include "program/Manifest.h"

namespace tpc::rt {

/// The devices that the program's kernels are for, one for each rank unless ranks may share them.
/// Collective over the session, which may be null. Throws UserError.
const DeviceKind &assignDevices(const tpc_program &program, Session *session,
                                const Launcher &launcher, const Manifest &manifest, bool share);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ASSIGNDEVICES_H
