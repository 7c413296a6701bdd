//===- Private.h - Driver interface for the other simulated libraries -----===//
//
// The simulated cuBLASLt, cuDNN and NCCL use the simulated driver through class Driver. They get it
// from cuGetExportTable by a private identifier, as the vendor's libraries get their tables. An
// operation of a stream is a Work; the driver decides when it runs.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_PRIVATE_H
#define TPC_TEST_SIMULATOR_CUDA_PRIVATE_H

#include "Types.h"

#include <memory>
#include <string>

namespace sim {

/// Ends the running operation with a device error, which also invalidates the context.
struct Fault {
  Result result;
  std::string message;
};

/// Access of an operation to its device while it runs. Functions throw Fault for memory outside of
/// an allocation, for unwritten memory, and for a race with an unordered operation.
class Execution {
public:
  virtual ~Execution() = default;
  /// Returns these bytes, all of which must have been written.
  virtual const uint8_t *read(uint64_t address, uint64_t bytes, const char *what) = 0;
  /// Returns bytes that the operation overwrites completely.
  virtual uint8_t *write(uint64_t address, uint64_t bytes, const char *what) = 0;
  virtual uint64_t random() = 0;
  /// Adds to the device's clock, which events read. The driver adds a microsecond for each
  /// operation; the operation adds the rest of its duration.
  virtual void addDuration(double milliseconds) = 0;
  /// Returns the index of the device.
  virtual int device() const = 0;
};

enum class Progress : uint8_t {
  Done,
  Waits, // waits for another device or process; is polled again soon
};

class Work {
public:
  explicit Work(std::string name) : name(std::move(name)) {}
  virtual ~Work() = default;
  /// Called before the first step of each run. A captured operation may run many times.
  virtual void begin() {}
  virtual Progress step(Execution &execution) = 0;

  const std::string name;
  bool isKernel = false;    // a kernel of the program
  bool isDependent = false; // may begin before the previous kernel of its stream ends
};

struct StreamInfo {
  int device = 0; // device of the stream's context
  bool capturing = false;
  bool legacy = false;
};

class Driver {
public:
  /// Returns the current device, or -1 without a context.
  virtual int currentDevice() = 0;
  /// Describes a stream. Returns an error if it is no stream or its context has failed.
  virtual Result describe(Stream *stream, StreamInfo &info) = 0;
  /// Enqueues work after all work in the stream, or adds a node to the graph while the stream
  /// captures.
  virtual Result enqueue(Stream *stream, std::shared_ptr<Work> work) = 0;
  /// Allocates memory of the current device in unshared pages. Only `release` frees it.
  virtual Result allocate(DevicePointer *address, size_t bytes, size_t alignment,
                          const char *name) = 0;
  virtual Result release(DevicePointer address, const char *name) = 0;
  /// Adds or removes a use, by a library, of the allocation that contains an address of the current
  /// device. Freeing an allocation that is in use is a finding. Returns false if there is no such
  /// allocation, or no use to remove.
  virtual bool setInUse(uint64_t address, bool inUse) = 0;
  /// Whether these bytes are within one allocation of the current device.
  virtual bool allocated(uint64_t address, size_t bytes) = 0;
  /// Invalidates the capture of the stream, as a call does that is illegal during a capture.
  virtual void invalidate(Stream *stream) = 0;
  /// Returns the compute capability of a device, such as 90.
  virtual int capability(int device) = 0;
  /// Reports a finding, once for each text.
  virtual void finding(const std::string &text) = 0;
  virtual uint64_t seed() = 0;
  /// Whether TPC_SIM_INJECT requests a fault at the call with number `count` on a device.
  virtual bool injected(const char *what, uint64_t count, int device) = 0;
  /// Writes a line of the trace.
  virtual void trace(const std::string &text) = 0;

protected:
  ~Driver() = default;
};

constexpr Uuid driverTable = {
    {'t', 'p', 'c', '-', 's', 'i', 'm', 'u', 'l', 'a', 't', 'o', 'r', '-', '0', '1'}};

extern "C" Result cuGetExportTable(const void **table, const Uuid *id);

/// Returns the simulated driver that is loaded.
inline Driver &driver() {
  static Driver *found = [] {
    const void *table = nullptr;
    cuGetExportTable(&table, &driverTable);
    return const_cast<Driver *>(static_cast<const Driver *>(table));
  }();
  return *found;
}

} // namespace sim

#endif
