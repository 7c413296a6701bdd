//===- DeviceSelection.cpp - Selection of the device kind -----------------===//

#include "core/Device.h"
#include <atomic>
#include <utility>

namespace tpc::rt {

static std::atomic<const DeviceKind *> chosen{nullptr};
static thread_local const DeviceKind *chosenByThread = nullptr;

const DeviceKind &deviceKind() {
  const DeviceKind *kind = chosenByThread ? chosenByThread : chosen.load();
  return kind ? *kind : cpuDevices();
}

void selectDevices(const DeviceKind &kind) { chosen.store(&kind); }

const DeviceKind *selectDevicesOfThread(const DeviceKind *kind) {
  return std::exchange(chosenByThread, kind);
}

const DeviceKind *devicesOf(const tpc_program &program, std::string &problem) {
  return program.gpu_code ? cudaDevices(problem) : &deviceKind();
}

} // namespace tpc::rt
