//===- Setup.h - what is to be settled before a program runs --------------===//
//
// What executables do before the first step, and processes that have loaded a program as a library.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_SETUP_H
#define TPC_RT_PROGRAM_SETUP_H

#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Manifest.h"

namespace tpc::rt {

/// Throws UserError where it does not fit the program or this runtime.
Manifest readManifest(const tpc_program &program);

/// All ranks are threads of this process: before anything is read, for what the system allows.
void checkThreads(const Manifest &manifest, const Options &options);

/// What computes, where the program has kernels of its own: one device for each rank.
void chooseDevice(const tpc_program &program, Session *session, const Launcher &launcher,
                  const Manifest &manifest, const Options &options);

/// All ranks compute products by the same library, of the same version: bits depend on it. So they
/// communicate, and measure.
void chooseProducts(Session *session, const Options &options);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SETUP_H
