//===- Ptx.h - PTX interpreter --------------------------------------------===//
//
// Public header of the interpreter. The interpreter parses the PTX text that programs contain, and
// runs its kernels on memory that tracks for each byte whether it exists, which thread wrote it,
// and when. Behavior that is undefined on a device is a finding. It uses only standard C++; no
// function throws.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_PTX_H
#define TPC_TEST_SIMULATOR_PTX_PTX_H

#include "DeviceMemory.h"

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

struct Program; // the parsed text: Program.h

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
  bool operator==(const Dim3 &) const = default;
};

struct ParameterInfo {
  std::string name;
  uint32_t bytes = 0;
};

struct KernelInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;
  uint32_t instructions = 0;
  uint32_t sharedBytes = 0;        // bytes of static arrays
  bool dynamicShared = false;      // reads an extern array
  std::array<uint32_t, 3> block{}; // .reqntid, or zeros
  uint32_t maxThreads = 0;         // .maxntid, or 0
};

/// A parsed text. It never changes, and copies share it.
class Module {
public:
  std::vector<KernelInfo> kernels() const;
  /// Return the target, such as "sm_80", and the version, such as "7.0".
  std::string target() const;
  std::string version() const;

  std::shared_ptr<const Program> program;
};

/// Returns nothing, and an error with its line, if the text has any construct that the interpreter
/// does not support. No construct is ignored silently.
std::optional<Module> parse(std::string_view text, std::string &error);

/// The bytes of one kernel parameter.
struct Argument {
  std::vector<uint8_t> bytes;

  template <class T> static Argument of(T value) {
    Argument made;
    auto raw = std::bit_cast<std::array<uint8_t, sizeof(T)>>(value);
    made.bytes.assign(raw.begin(), raw.end());
    return made;
  }
  static Argument pointer(uint64_t address) { return of(address); }
};

enum class Check : uint8_t {
  Launch,          // grid, block, shared memory or parameters that the kernel cannot have
  Memory,          // bounds, alignment, use after free, writes to read-only memory
  Initialization,  // reads of unwritten memory
  Race,            // accesses that no barrier orders
  Synchronization, // divergent barriers, missing lanes, deadlock
  Trap,            // a trap instruction was executed
  Limit,           // more instructions than allowed
};

std::string_view nameOf(Check check);

struct Finding {
  Check check = Check::Launch;
  std::string kernel;
  uint32_t line = 0; // line of the PTX text, from 1; 0 if there is no instruction
  std::string text;  // text of that instruction
  Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::string message;
  uint64_t count = 1; // occurrences at this instruction

  std::string str() const;
};

/// Classes of instructions, for counters.
enum class Class : uint8_t {
  Move,
  Integer,
  Float,
  Matrix, // mma
  Approximate,
  Convert,
  Compare,
  Control,
  Barrier,
  Shuffle,
  Atomic,
  Global,
  Shared,
  Local,
  Parameter,
  NumClasses
};

std::string_view nameOf(Class cls);

/// Traffic of accesses to global memory. A sector has 32 bytes. Sectors are counted for each
/// request of a warp, without a cache.
struct Traffic {
  uint64_t readRequests = 0, writeRequests = 0;
  uint64_t readSectors = 0, writtenSectors = 0;
  uint64_t readBytes = 0, writtenBytes = 0;                 // sums over all lanes
  uint64_t distinctReadBytes = 0, distinctWrittenBytes = 0; // each byte once per launch

  Traffic &operator+=(const Traffic &other);
};

struct Counters {
  std::array<uint64_t, size_t(Class::NumClasses)> instructions{}; // executed by warps
  uint64_t laneInstructions = 0;                                  // executed by threads
  Traffic global;
  std::map<std::string, Traffic> allocations; // the same counters by allocation name
  uint64_t sharedRequests = 0;                // requests of warps to shared memory
  uint64_t sharedCycles = 0;                  // cycles of these requests
  uint64_t sharedConflicts = 0;               // cycles lost to bank conflicts
  uint64_t barriers = 0;                      // barriers that blocks passed
  uint64_t divergentBranches = 0;

  uint64_t total() const;
  Counters &operator+=(const Counters &other);
  std::string str() const;
};

struct LaunchConfig {
  Dim3 grid, block;
  uint32_t sharedBytes = 0; // dynamic
  uint64_t seed = 0; // selects the order of blocks, warps and lanes, and errors of approximations
  uint64_t maxInstructions = uint64_t(1) << 32; // limit of instructions of all warps
  // The kernel may begin before the previous one ends. Each thread must execute
  // griddepcontrol.wait.
  bool dependent = false;
  size_t maxFindings = 20;
};

/// Global memory that a dependent launch accesses.
struct EarlyAccess {
  uint64_t from = 0, to = 0; // addresses
  bool written = false;
  bool operator==(const EarlyAccess &) const = default;
};

struct Result {
  std::vector<Finding> findings;
  /// Accesses of a dependent launch that need not happen after the previous kernel: before the
  /// thread's griddepcontrol.wait, or through the read-only cache. Sorted and merged.
  std::vector<EarlyAccess> early;
  Counters counters;
  bool completed = false; // whether every thread ended
  bool clean() const { return completed && findings.empty(); }
  /// Returns all findings, one per line.
  std::string str() const;
};

/// Runs one grid. Findings at which a device would stop (bounds, deadlock, trap) end it.
Result launch(const Module &module, std::string_view kernel, std::span<const Argument> arguments,
              Memory &memory, const LaunchConfig &config);

} // namespace ptx

#endif
