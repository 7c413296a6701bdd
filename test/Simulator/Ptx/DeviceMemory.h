//===- DeviceMemory.h - Simulated global memory ---------------------------===//
//
// Addresses are not host addresses. Unused gaps separate allocations, whose bases have the
// requested alignment and no larger one. Each byte has a flag that it was written.
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

/// Initial contents of an allocation: garbage (NaN in any float type) that counts as unwritten, or
/// zeros that count as written.
enum class Fill : uint8_t { Garbage, Zero };

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::string name;
  bool readOnly = false; // for kernels
  bool freed = false;
  uint64_t unwritten = 0; // how many bytes nobody wrote
  Backing data;
  Backing written; // a 1 for each byte that was
  Shadow shadow;

  uint64_t end() const { return base + bytes; }
};

class Memory {
public:
  /// Addresses begin near this one, far from where hosts have memory.
  explicit Memory(uint64_t seed = 0, uint64_t firstAddress = 0x7000'0000'0000);

  /// The base has this alignment (a power of two) and no larger one. Nothing lies next to it.
  uint64_t allocate(uint64_t bytes, std::string name, uint64_t alignment = 256,
                    Fill fill = Fill::Garbage);
  /// Host copies. False, and nothing copied, where the bytes are not all of one live allocation.
  bool copyIn(uint64_t address, const void *from, uint64_t bytes);
  bool copyOut(void *to, uint64_t address, uint64_t bytes) const;
  bool fill(uint64_t address, uint8_t value, uint64_t bytes);
  /// Copies bytes within the device. Unwritten bytes remain unwritten. False as above.
  bool copy(uint64_t to, uint64_t from, uint64_t bytes);
  /// Returns these bytes to a caller that writes all of them in place of a kernel. Null as above.
  uint8_t *beginWrite(uint64_t address, uint64_t bytes);
  /// Returns these bytes, which may be unwritten. Null as above.
  const uint8_t *read(uint64_t address, uint64_t bytes);
  /// Returns the number of unwritten bytes.
  uint64_t countUnwritten(uint64_t address, uint64_t bytes) const;
  /// Kernels may not write it.
  bool setReadOnly(uint64_t address, bool readOnly = true);
  /// Later uses are found. False where nothing begins there, or it was freed already.
  bool free(uint64_t address);

  /// Where an address is: "12 bytes behind the end of x (3072 bytes)".
  std::string describe(uint64_t address) const;

  // ---- for the interpreter ----

  /// The live or freed allocation that has this address, or null.
  Allocation *find(uint64_t address);
  const Allocation *find(uint64_t address) const {
    return const_cast<Memory *>(this)->find(address);
  }
  /// The addresses of a module's own variables; made when it is first launched.
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
  /// Gives back what the last launch has taken for its checks, if that is much. It is forgotten.
  void trim() {
    constexpr size_t much = 8192; // 190 MB
    if (piecesInUse() > much)
      for (Allocation *one : touched)
        one->shadow.release();
  }
  /// Says that a launch touches it.
  void enter(Allocation &allocation, uint32_t launch);

private:
  Allocation *findLive(uint64_t address, uint64_t bytes);
  uint64_t random();

  std::vector<std::unique_ptr<Allocation>> allocations; // by base
  std::vector<std::pair<std::shared_ptr<const Program>, std::vector<uint64_t>>> variables;
  std::vector<Allocation *> touched; // by the last launch
  Allocation *last = nullptr;
  uint64_t next;
  uint64_t state;
  uint32_t launches = 0;
};

} // namespace ptx

#endif
