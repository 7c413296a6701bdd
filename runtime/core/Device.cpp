//===- Device.cpp - where tensors are, and what computes on them ----------===//

#include "core/Device.h"
#include "core/Links.h"
#include <limits>

namespace tpc::rt {

Matrix::~Matrix() = default;
MemorySource::~MemorySource() = default;
Device::~Device() = default;
bool Device::isHosts() const { return true; }
void Device::discard(void *, int64_t) {}
int64_t Device::writeBytes() const { return std::numeric_limits<int64_t>::max(); }
void *Device::map(void *data, int64_t, Use) { return data; }
std::unique_ptr<Links> Device::makeLinks() { return nullptr; }

Links::~Links() = default;

DeviceKind::~DeviceKind() = default;
std::string DeviceKind::products() const { return "tpc"; }
std::string DeviceKind::communication() const { return "the host"; }
const DeviceKind *DeviceKind::withProducts(const std::string &name, std::string &problem) const {
  if (name == "tpc")
    return this;
  problem = "--products=" + name + ": this device (" + this->name() +
            ") has no products but its own, 'tpc'";
  return nullptr;
}
std::string DeviceKind::environmentProblem() const { return ""; }
std::string DeviceKind::place(const Placement &, std::string &) const { return ""; }

} // namespace tpc::rt
