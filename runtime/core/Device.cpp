//===- Device.cpp - Default implementations of the device interface -------===//

#include "core/Device.h"
#include "core/CollectiveBackend.h"
#include "core/WeightLoader.h"
#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tpc::rt {

Matrix::~Matrix() = default;
MemorySource::~MemorySource() = default;
Recording::~Recording() = default;
WeightLoader::~WeightLoader() = default;
Device::~Device() = default;
bool Device::isHost() const { return true; }
bool Device::isSynchronous() const { return false; }
MemorySource &Device::frames() { return *this; }
void Device::discard(void *, int64_t) {}
void Device::clear(void *memory, int64_t bytes) {
  auto *to = static_cast<std::byte *>(memory);
  for (int64_t at = 0, size = 0; at < bytes; at += size) {
    size = std::min({bytes - at, writeBytes(), int64_t(1) << 24});
    std::memset(beginWrite(to + at, size), 0, static_cast<size_t>(size));
    endWrite();
  }
}
int64_t Device::writeBytes() const { return std::numeric_limits<int64_t>::max(); }
bool Device::pin(void *, int64_t) { return false; }
void Device::unpin(void *) {}
void Device::deliver(const void *from, int64_t bytes, Taker take, Destination) {
  Reading reading(*this, from, bytes);
  take(reading.data);
}
bool Device::packExperts(void *, int64_t, int64_t, int64_t, int32_t) { return false; }
bool Device::multiplyFused(const Products &, const tpc_fusion &) { return false; }
bool Device::sample(const SamplingRequest &, SamplingConsumer) { return false; }
void Device::copyRows(const Rows &rows) {
  for (int64_t row = 0; row < rows.count; ++row)
    copy(static_cast<std::byte *>(rows.to) + row * rows.toStride,
         static_cast<const std::byte *>(rows.from) + row * rows.fromStride, rows.bytes);
}
bool Device::accumulate(float *, const float *, int64_t) { return false; }
void Device::quantizedProduct(const tpc_quantized_args &) {
  throw std::logic_error("internal error: this device does not multiply by quantized parameters");
}
void Device::attentionGrad(const tpc_attention_args &, const float *, float *, float *, float *) {
  throw std::logic_error("internal error: this device does not compute gradients of attention");
}
void Device::exchangeRows(RoutedWork, const RoutedRows &, void *) {
  throw std::logic_error("internal error: this device does not exchange tokens");
}
void Device::sumBins(const float *, int64_t, float, std::span<int64_t>) {
  throw std::logic_error("internal error: a device that cannot sample has no scores");
}
std::unique_ptr<WeightLoader> Device::makeWeightLoader() { return nullptr; }
bool Device::computes(int32_t dtype) const { return dtype == TPC_F32; }
void *Device::map(void *data, int64_t, Use) { return data; }
std::vector<std::string> Device::pendingTunings() { return {}; }
int64_t Device::tuningBytes(const std::string &) { return 0; }
std::string Device::tune(const std::string &, void *) { return ""; }
bool Device::applyTuning(const std::string &, const std::string &) { return false; }
bool Device::canRecord() const { return false; }
std::unique_ptr<Recording> Device::prepareRecording() { return nullptr; }
void Device::beginRecording(Recording &) {}
void Device::endRecording(Recording &) {}
void Device::abandonRecording() {}
void Device::replay(Recording &) {}
bool Device::canReplayAhead(const Recording &) const { return false; }
void Device::replayAhead(Recording &) {}
tpc_status Device::takeAhead() { return {}; }
void Device::dropAhead() {}
uint64_t Device::memoryVersion() const { return 0; }
std::optional<std::string> Device::pending() const { return std::nullopt; }
uint64_t Device::workVersion() const { return 0; }
std::unique_ptr<CollectiveBackend> Device::makeCollectiveBackend() { return nullptr; }

CollectiveBackend::~CollectiveBackend() = default;

DeviceKind::~DeviceKind() = default;
std::string DeviceKind::products() const { return "tpc"; }
std::string DeviceKind::communication() const { return "the host"; }
const DeviceKind *DeviceKind::withProducts(const std::string &name, std::string &problem) const {
  if (name == "tpc")
    return this;
  problem = "--products=" + name + ": this device (" + this->name() +
            ") computes products only by its own backend, 'tpc'";
  return nullptr;
}
void DeviceKind::shareKernels(const std::vector<std::string> &) const {}
std::string DeviceKind::environmentProblem() const { return ""; }
std::string DeviceKind::assign(const Placement &) const { return ""; }
DeviceAssignment DeviceKind::assignmentOf(int) const { return {}; }
std::string DeviceKind::setSharing(bool) const { return ""; }
void DeviceKind::enableTuning(bool) const {}
std::optional<std::string> DeviceKind::installedTuning(const std::string &) const {
  return std::nullopt;
}
void DeviceKind::releaseUnused() const {}
std::vector<std::string> DeviceKind::takeNotes() const { return {}; }
int32_t DeviceKind::storedType(int32_t dtype, int32_t) const { return dtype; }
int64_t DeviceKind::freeBytes(int) const { return std::numeric_limits<int64_t>::max(); }
const DeviceKind *DeviceKind::dryRun() const { return nullptr; }
MemoryUse &DeviceKind::use() const { throw std::logic_error("memory is not counted"); }

} // namespace tpc::rt
