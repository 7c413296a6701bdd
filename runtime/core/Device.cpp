//===- Device.cpp - where tensors are, and what computes on them ----------===//

#include "core/Device.h"
#include <atomic>

namespace tpc::rt {

Matrix::~Matrix() = default;
Device::~Device() = default;
void Device::discard(void *, int64_t) {}

DeviceKind::~DeviceKind() = default;
std::string DeviceKind::products() const { return "tpc"; }
const DeviceKind *DeviceKind::withProducts(const std::string &name, std::string &problem) const {
  if (name == "tpc")
    return this;
  problem = "--products=" + name + ": this device (" + this->name() +
            ") has no products but its own, 'tpc'";
  return nullptr;
}
std::string DeviceKind::environmentProblem() const { return ""; }

static std::atomic<const DeviceKind *> chosen{nullptr};

const DeviceKind &deviceKind() {
  const DeviceKind *kind = chosen.load();
  return kind ? *kind : cpuDevices();
}

void chooseDevices(const DeviceKind &kind) { chosen.store(&kind); }

} // namespace tpc::rt
