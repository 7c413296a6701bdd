//===- Program.h - Decoded PTX program ------------------------------------===//
//
// Each instruction is decoded once, into a function over the lanes of a warp and the offsets of its
// operands in the warp's register file. Immediates and special registers are in the same file.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_PROGRAM_H
#define TPC_TEST_SIMULATOR_PTX_PROGRAM_H

#include "Ptx.h"
#include "Types.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace ptx {

constexpr unsigned warpSize = 32;
using Mask = uint32_t; // one bit per lane
constexpr Mask allLanes = ~Mask(0);

class Warp;
struct Inst;
using Handler = void (*)(Warp &, const Inst &, Mask);

/// Offset of a register's values in a warp's register file. The word that is headerBytes before it
/// is the mask of lanes in which the register is defined.
using Slot = uint32_t;
constexpr unsigned headerBytes = 32;

/// Kind of an instruction, for the interpreter's main loop.
enum class Flow : uint8_t {
  Plain,   // reads all sources, writes dst
  Custom,  // the handler determines which lanes become defined
  Branch,  // target
  Indexed, // brx.idx: targets
  Exit,
  Trap,
  Warp,    // synchronizes the lanes of a mask: shfl, vote, …
  Barrier, // synchronizes warps
};

struct Inst {
  Handler run = nullptr;
  Slot dst = 0;
  Slot src[4] = {0, 0, 0, 0}; // unused sources are a slot that is always defined
  Slot guard = 0;             // 0 if there is none
  bool guardNegated = false;
  Flow flow = Flow::Plain;
  Class cls = Class::Move;
  Type type = Type::None, type2 = Type::None;
  Space space = Space::Generic;
  uint8_t mode = 0; // an enum of the instruction group
  uint8_t flags = 0;
  uint8_t bytes = 0;    // bytes of one element in memory
  uint8_t vector = 1;   // number of elements
  uint32_t list = 0;    // slots in Kernel::lists, or targets
  uint32_t target = 0;  // instruction that a branch jumps to; number of targets of brx.idx
  int64_t offset = 0;   // offset of an address
  uint32_t line = 0;    // line of the PTX text
  uint32_t text = 0;    // index in Kernel::texts
  bool join = false;    // reconvergence point
  bool aligned = false; // must be executed by all lanes of a warp together (Flow::Warp)
};

/// A variable of the module, or of a function's body.
struct Variable {
  std::string name;
  Space space = Space::Global;
  uint64_t bytes = 0;
  uint32_t alignment = 1;
  bool external = false; // a shared array whose size the launch determines
  bool initialized = false;
  std::vector<uint8_t> data;
  uint64_t address = 0; // offset of a local variable
};

struct Parameter {
  std::string name;
  uint32_t bytes = 0;
  uint32_t alignment = 1;
  uint32_t offset = 0;
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  MaskEq,
  MaskLe,
  MaskLt,
  MaskGe,
  MaskGt,
  DynamicSharedBytes,
  TotalSharedBytes,
  NumSpecial
};

/// An immediate: a register with the same value in all warps.
struct Constant {
  Slot slot;
  unsigned bytes; // per lane; 0 for a predicate
  uint64_t value;
};

/// A slot that a launch sets to the address of a variable.
struct AddressUse {
  Slot slot;
  uint32_t variable; // index in Program::variables or Kernel::shared
  int64_t offset;
  bool shared = false;
  unsigned bytes = 8; // bytes of the slot
};

struct Kernel {
  KernelInfo info;
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  std::vector<Inst> code;
  std::vector<std::string> texts;
  std::vector<Slot> lists; // slots, and targets
  uint32_t fileBytes = 0;  // bytes of a warp's register file
  std::vector<Slot> slots; // registers that are defined when a block begins
  std::vector<Constant> constants;
  std::vector<AddressUse> addresses;
  std::vector<std::pair<Special, Slot>> specials;
  std::vector<Variable> shared; // static, then extern
  uint32_t sharedBytes = 0;     // maximum over all layouts
  uint32_t localBytes = 0;      // per thread
};

struct Program {
  std::string version, target;
  std::vector<Variable> variables; // .global and .const
  std::vector<std::unique_ptr<Kernel>> kernels;

  const Kernel *find(std::string_view name) const;
};

/// Generic addresses at which state spaces begin, and addresses of shared and local memory within
/// their own space.
constexpr uint64_t sharedWindow = 0x0100'0000'0000, localWindow = 0x0200'0000'0000;
constexpr uint64_t windowBytes = uint64_t(1) << 32;
// Limits of a program. No device has more, and the interpreter allocates this memory per thread.
constexpr uint32_t maxLocalBytes = 512 * 1024, maxParameterBytes = 32764, maxAlignment = 64 * 1024;
constexpr uint64_t maxVariableBytes = uint64_t(1) << 40;
constexpr uint32_t maxRegisters = 100000, maxBlockThreads = 1024;
constexpr uint32_t spaceBegin = 1024; // first address in both spaces, so that null is invalid
constexpr uint32_t sharedGap = 128;   // between variables, to detect accesses past their ends

} // namespace ptx

#endif
