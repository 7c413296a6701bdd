//===- Setup.h - Setup before a program runs ------------------------------===//
//
// Shared by executables before the first step, and by processes that load a program as a library.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_SETUP_H
#define TPC_RT_PROGRAM_SETUP_H

#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Manifest.h"

namespace tpc::rt {

/// Throws UserError if the manifest does not fit the program or this runtime.
Manifest readManifest(const tpc_program &program);

/// Checks the system's thread limit if all ranks are threads of this process. Call before reading
/// files.
void checkThreads(const Manifest &manifest, const Options &options);

/// Selects the device kind of the program's kernels, and one device per rank.
void selectDevice(const tpc_program &program, Session *session, const Launcher &launcher,
                  const Manifest &manifest, const Options &options);

/// Selects CPU kernels that all ranks support, and the matmul backend. Checks that all ranks have
/// the same backends for matmuls and communication, and the same tuning, because bits depend on
/// them.
void chooseProducts(Session *session, const Options &options);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SETUP_H
