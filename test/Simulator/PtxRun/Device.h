//===- Device.h - Launch on a real device ---------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTXRUN_DEVICE_H
#define TPC_TEST_SIMULATOR_PTXRUN_DEVICE_H

#include "Options.h"

namespace ptxrun {

/// Runs the kernel through libcuda.so.1. Returns the final contents of each buffer, and nothing for
/// parameters that are numbers. Throws UserError if there is no driver or device, or if a call
/// fails.
std::vector<std::vector<uint8_t>> runOnDevice(const std::string &text, const Options &options);

} // namespace ptxrun

#endif
