//===- Access.h - Access of the host to device memory -----------*- C++ -*-===//

#ifndef TPC_RT_CORE_ACCESS_H
#define TPC_RT_CORE_ACCESS_H

#include "core/Context.h"
#include "core/Transport.h"

namespace tpc::rt {

/// Scope in which the transport, or a collective, uses device memory from the host. A transport on
/// the device needs no access, and memory is then not mapped.
class Access {
public:
  explicit Access(tpc_context &ctx, bool isOnDevice = false)
      : device(isOnDevice ? nullptr : ctx.device.get()) {
    if (device)
      device->beginAccess();
  }
  Access(const Access &) = delete;
  Access &operator=(const Access &) = delete;
  ~Access() {
    if (device)
      device->endAccess();
  }

  const void *read(const void *data, int64_t bytes) {
    return map(const_cast<void *>(data), bytes, Device::Use::Read);
  }
  void *write(void *data, int64_t bytes) { return map(data, bytes, Device::Use::Write); }
  void *update(void *data, int64_t bytes) { return map(data, bytes, Device::Use::ReadWrite); }

private:
  void *map(void *data, int64_t bytes, Device::Use use) {
    return device ? device->map(data, bytes, use) : data;
  }
  Device *device;
};

/// Scope in which a rank communicates; records the operation.
class Transfer : public Access {
public:
  Transfer(tpc_context &ctx, const char *what, uint32_t axes)
      : Transfer(ctx, *ctx.transport, what, axes) {}
  Transfer(tpc_context &ctx, const Transport &transport, const char *what, uint32_t axes)
      : Access(ctx, transport.isOnDevice()), doing(ctx.activity, what, axes) {}

private:
  OperationScope doing;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ACCESS_H
