//===- DeviceTest.h - Fixture of the device conformance tests -------------===//

#ifndef TPC_RT_CONFORMANCE_DEVICETEST_H
#define TPC_RT_CONFORMANCE_DEVICETEST_H

#include "core/Context.h"
#include "core/Device.h"
#include "core/World.h"
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace tpc::rt::conformance {

/// Kernels of the suite, defined in DeviceTest.cpp.
enum Kernels { Twice, Count, LookUp };
void loadKernels(Device &device);

/// Returns small signed multiples of 1/64.
std::vector<float> numbers(int64_t count, int seed);

struct Candidate {
  const DeviceKind &(*kind)();
  /// hasActivations: GEMMs have activation epilogues; other devices use kernels. hasAttention: the
  /// device computes attention itself; other devices use generated kernels.
  bool hasActivations = true, hasAttention = true;
  /// Kernels have 32-bit indices.
  bool hasNarrowIndices = false;
};

struct DeviceTest : testing::TestWithParam<Candidate> {
  DeviceTest() {
    selectDevices(GetParam().kind());
    world = World::threads(Grid({{"tp", 1}}), 2);
    device = world->local(0).device.get();
    loadKernels(*device);
  }
  ~DeviceTest() override {
    memory.clear();
    world.reset();
    selectDevices(cpuDevices());
  }

  /// Creates a tensor on the device.
  template <class T> T *tensor(const std::vector<T> &values) {
    auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void *data = memory.emplace_back(*device, bytes).data();
    if (bytes) {
      std::memcpy(device->beginWrite(data, bytes), values.data(), static_cast<size_t>(bytes));
      device->endWrite();
    }
    return static_cast<T *>(data);
  }
  template <class T> std::vector<T> valuesOf(const T *data, size_t count) {
    std::vector<T> values(count);
    Reading reading(*device, data, static_cast<int64_t>(count * sizeof(T)));
    if (count)
      std::memcpy(values.data(), reading.data, count * sizeof(T));
    return values;
  }
  void launch(int32_t kernel, std::vector<void *> operands, int64_t rows, int64_t grain = 1) {
    device->launch(kernel, operands.data(), static_cast<int32_t>(operands.size()), rows, grain);
    // The device must read the list before it returns.
    std::fill(operands.begin(), operands.end(), nullptr);
  }

  std::unique_ptr<World> world;
  Device *device;
  std::vector<DeviceMemory> memory;
};

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_DEVICETEST_H
