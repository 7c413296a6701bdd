//===- OnDevice.h - Device tensors of a test ------------------------------===//
//
// Collectives take tensors in device memory, which the host may not be able to access.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_ONDEVICE_H
#define TPC_RT_CONFORMANCE_ONDEVICE_H

#include "core/Context.h"
#include <cstring>
#include <initializer_list>
#include <vector>

namespace tpc::rt::conformance {

template <typename T> class OnDevice {
public:
  OnDevice(tpc_context &ctx, const std::vector<T> &values)
      : device(*ctx.device), count(values.size()), memory(device, bytes()) {
    write(values);
  }
  OnDevice(tpc_context &ctx, std::initializer_list<T> values)
      : OnDevice(ctx, std::vector<T>(values)) {}
  /// Unspecified contents.
  OnDevice(tpc_context &ctx, size_t count)
      : device(*ctx.device), count(count), memory(device, bytes()) {}

  T *data() const { return static_cast<T *>(memory.data()); }
  void write(const std::vector<T> &values) {
    if (count == 0)
      return;
    std::byte *to = device.beginWrite(data(), bytes());
    std::memcpy(to, values.data(), static_cast<size_t>(bytes()));
    device.endWrite();
  }
  std::vector<T> read() const {
    std::vector<T> values(count);
    if (count == 0)
      return values;
    Reading reading(device, data(), bytes());
    std::memcpy(values.data(), reading.data, static_cast<size_t>(bytes()));
    return values;
  }

private:
  int64_t bytes() const { return static_cast<int64_t>(count * sizeof(T)); }

  Device &device;
  size_t count;
  DeviceMemory memory;
};

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_ONDEVICE_H
