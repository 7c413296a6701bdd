//===- DeviceMemory.h - Simulated global memory ---------------------------===//
//
// Addresses are not host addresses. Unused gaps separate allocations, whose bases have exactly the
// requested alignment. Each byte has a flag: whether it was written.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_DEVICEMEMORY_H
#define TPC_TEST_SIMULATOR_PTX_DEVICEMEMORY_H

#include "Shadow.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

struct Program;

/// Initial contents of an allocation: garbage (NaN in every float type), which counts as unwritten,
/// or zeros, which count as written.
enum class Fill : uint8_t { Garbage, Zero };

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::string name;
  bool readOnly = false; // kernels may not write it
  bool freed = false;
  uint64_t unwritten = 0; // number of unwritten bytes
  Backing data;
  Backing written; // 1 for each written byte
  Shadow shadow;

  uint64_t end() const { return base + bytes; }
};

class Memory {
public:
  /// Makes a memory whose addresses begin near this one, far from host memory.
  explicit Memory(uint64_t seed = 0, uint64_t firstAddress = 0x7000'0000'0000);

  /// Allocates memory. The address has exactly this alignment, a power of two. Gaps surround the
  /// allocation.
  uint64_t allocate(uint64_t bytes, std::string name, uint64_t alignment = 256,
                    Fill fill = Fill::Garbage);
  /// Copies from or to the host. Returns false and copies nothing unless all bytes are in one live
  /// allocation.
  bool copyIn(uint64_t address, const void *from, uint64_t bytes);
  bool copyOut(void *to, uint64_t address, uint64_t bytes) const;
  bool fill(uint64_t address, uint8_t value, uint64_t bytes);
  /// Copies bytes within the device. Copies of unwritten bytes count as unwritten. Fails as above.
  bool copy(uint64_t to, uint64_t from, uint64_t bytes);
  /// Marks these bytes as written and returns them, for a caller that writes all of them in place
  /// of a kernel. Returns null unless all are in one live allocation.
  uint8_t *beginWrite(uint64_t address, uint64_t bytes);
  /// Returns these bytes, which may be unwritten, or null under the same condition.
  const uint8_t *read(uint64_t address, uint64_t bytes);
  /// Returns the number of unwritten bytes.
  uint64_t countUnwritten(uint64_t address, uint64_t bytes) const;
  /// Makes the allocation read-only for kernels. Returns false if there is none at the address.
  bool setReadOnly(uint64_t address, bool readOnly = true);
  /// Frees an allocation; later uses are detected. Returns false if nothing begins there or it was
  /// freed already.
  bool free(uint64_t address);

  /// Describes where an address is, such as "12 bytes past the end of x (3072 bytes)".
  std::string describe(uint64_t address) const;

  // ---- for the interpreter ----

  /// Returns the live or freed allocation that contains this address, or null.
  Allocation *find(uint64_t address);
  const Allocation *find(uint64_t address) const {
    return const_cast<Memory *>(this)->find(address);
  }
  /// Returns the addresses of a module's variables; allocates them at the first launch.
  const std::vector<uint64_t> &variablesOf(const std::shared_ptr<const Program> &program);
  uint32_t nextLaunch() {
    touched.clear();
    return ++launches;
  }
  /// Calls f(allocation, from, to, read, written) for all byte ranges that the last launch
  /// accessed.
  template <class F> void forTouched(F f) const {
    for (Allocation *one : touched)
      one->shadow.forTouched([&](uint64_t from, uint64_t to, bool read, bool written) {
        f(*one, from, to, read, written);
      });
  }
  /// Frees the metadata of the last launch if it is large.
  void trim() {
    constexpr size_t much = 8192; // 190 MB
    if (piecesInUse() > much)
      for (Allocation *one : touched)
        one->shadow.release();
  }
  /// Marks an allocation as accessed by the launch.
  void enter(Allocation &allocation, uint32_t launch);

private:
  Allocation *findLive(uint64_t address, uint64_t bytes);
  uint64_t random();

  std::vector<std::unique_ptr<Allocation>> allocations; // key: base address
  std::vector<std::pair<std::shared_ptr<const Program>, std::vector<uint64_t>>> variables;
  std::vector<Allocation *> touched; // accessed by the last launch
  Allocation *last = nullptr;
  uint64_t next;
  uint64_t state;
  uint32_t launches = 0;
};

} // namespace ptx

#endif
