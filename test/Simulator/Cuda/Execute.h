//===- Execute.h - Execution of operations --------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_EXECUTE_H
#define TPC_TEST_SIMULATOR_CUDA_EXECUTE_H

#include "Device.h"

namespace sim {

/// Reserves the addresses of a device, so that a program that dereferences one crashes.
void reserveAddresses(uint64_t first);

class Executing final : public Execution {
public:
  Executing(Context &context, Operation &operation, uint64_t seed)
      : context(context), operation(operation), next(seed) {}
  const uint8_t *read(uint64_t address, uint64_t bytes, const char *what) override;
  uint8_t *write(uint64_t address, uint64_t bytes, const char *what) override;
  uint64_t random() override { return next(); }
  void addDuration(double milliseconds) override { context.clock += milliseconds; }
  double clock() const { return context.clock; }
  int device() const override { return context.device; }

  /// Copies bytes. Copies of unwritten bytes count as unwritten.
  void copy(uint64_t to, uint64_t from, uint64_t bytes);
  void launch(const ptx::Module &module, const std::string &kernel,
              const std::vector<ptx::Argument> &arguments, ptx::LaunchConfig config);

private:
  void lockMemory() {
    if (!lock)
      lock = std::unique_lock(context.memoryMutex);
  }
  ptx::Allocation &find(uint64_t address, uint64_t bytes, const char *what, const char *verb);
  void note(uint64_t address, uint64_t bytes, bool write, const char *what, const Clock &clock);
  void note(uint64_t address, uint64_t bytes, bool write, const char *what) {
    note(address, bytes, write, what, operation.clock);
  }

  Context &context;
  Operation &operation;
  Random next;
  std::unique_lock<std::mutex> lock; // lock of the device's memory
};

/// A kernel that never ends.
class Forever final : public Work {
public:
  Forever() : Work("a kernel that never ends") {}
  Progress step(Execution &) override { return Progress::Waits; }
};

// ---- operations of streams: Works.cpp ----

std::shared_ptr<Work> makeUpload(DevicePointer to, const void *from, size_t bytes, bool staged);
std::shared_ptr<Work> makeDownload(void *to, DevicePointer from, size_t bytes, bool pinned);
std::shared_ptr<Work> makeCopy(DevicePointer to, DevicePointer from, size_t bytes);
/// Copies rows of `width` bytes, with pitches in bytes.
std::shared_ptr<Work> makeCopyRows(DevicePointer to, size_t toPitch, DevicePointer from,
                                   size_t fromPitch, size_t width, size_t rows);
std::shared_ptr<Work> makeFill(DevicePointer to, unsigned value, size_t count, unsigned width);
std::shared_ptr<Work> makeHostCall(HostFunction function, void *data);
std::shared_ptr<Work> makeClock(std::shared_ptr<double> time);
std::shared_ptr<Work> makeLaunch(const Module &module, const std::string &kernel,
                                 std::vector<ptx::Argument> arguments, ptx::LaunchConfig config);

/// Whether devices can access all, none, or some of these bytes of host memory.
enum class HostMemory : uint8_t { Pageable, Pinned, Both };
HostMemory kindOf(const void *host, size_t bytes);

} // namespace sim

#endif
