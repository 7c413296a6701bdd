//===- Device.h - Launch on a real device ---------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTXRUN_DEVICE_H
#define TPC_TEST_SIMULATOR_PTXRUN_DEVICE_H

#include "Options.h"

namespace ptxrun {

/// Runs the kernel through libcuda.so.1. Gives what each buffer then holds (numbers: nothing).
/// Throws UserError where there is no driver or no device, or where it refuses something.
std::vector<std::vector<uint8_t>> runOnDevice(const std::string &text, const Options &options);

} // namespace ptxrun

#endif
