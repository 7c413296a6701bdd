//===- Decoder.h - Decoder of a statement into an instruction -------------===//
//
// Each group of instructions has a file that defines their semantics and syntax. A function for
// each opcode consumes modifiers and operands; those that remain are errors.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_DECODER_H
#define TPC_TEST_SIMULATOR_PTX_DECODER_H

#include "Float.h"
#include "Syntax.h"

#include <initializer_list>
#include <map>

namespace ptx {

/// State shared by the statements of a kernel during decoding.
class KernelDecoder {
public:
  KernelDecoder(const Body &body, Program &program, Kernel &kernel);
  void run();

  Slot addSlot(unsigned bytesPerLane); // 0 for a predicate
  Slot constant(unsigned bytes, uint64_t value);
  Slot special(Special which);
  Slot sink(unsigned bytes) { return addSlot(bytes); }
  /// Returns the slot that contains the address of a variable in its own space.
  Slot addressOf(std::string_view name, int64_t offset, unsigned bytes, uint32_t line);
  /// Returns the kernel's parameter of this name, or null.
  const Parameter *findParameter(std::string_view name) const;

  const Body &body;
  Program &program;
  Kernel &kernel;
  std::vector<Register> registers;
  Slot zero = 0; // a slot that is always defined

private:
  void findJoins();
  std::map<std::pair<unsigned, uint64_t>, Slot> known;
  std::map<Special, Slot> knownSpecials;
};

class Decoder {
public:
  Decoder(KernelDecoder &kernel, const Statement &statement, Inst &inst)
      : kernel(kernel), statement(statement), inst(inst), left(statement.modifiers) {}

  [[noreturn]] void fail(const std::string &what) const;

  // ---- modifiers, in any order; unconsumed ones are an error ----

  bool take(std::string_view modifier);
  /// Returns the index of the modifier that is present, or -1.
  int takeOneOf(std::initializer_list<std::string_view> modifiers);
  /// Consumes the next type, from the left.
  Type takeType();
  std::optional<Type> takeTypeIf();
  std::optional<Rounding> takeRounding();

  // ---- operands ----

  size_t count() const { return statement.operands.size(); }
  void expectCount(size_t least, size_t most);
  void expectCount(size_t exactly) { expectCount(exactly, exactly); }
  const Operand &operand(size_t i) const { return statement.operands[i]; }
  /// Returns the slot of operand i, read as this type.
  Slot source(size_t i, Type type) { return sourceOf(operand(i), type); }
  Slot sourceOf(const Operand &operand, Type type, bool wider = false);
  Slot destination(size_t i, Type type) { return destinationOf(operand(i), type); }
  Slot destinationOf(const Operand &operand, Type type, bool wider = false);
  Slot predicateOf(const Operand &operand);
  /// Returns the second register of a pair, or a slot that is never read.
  Slot pairOf(const Operand &operand);
  /// Returns the slot of an address operand's base. `narrow` receives whether it has 32 bits, which
  /// only spaces other than global memory allow.
  Slot addressBase(const Operand &operand, Space space, bool &narrow);
  /// Returns the bytes per lane of an operand's register.
  unsigned registerBytes(const Operand &operand) const;
  uint32_t labelTarget(std::string_view label) const;
  /// Reads n sources from operand `first` on, all of one type.
  void sources(Type type, size_t first, size_t n);

  KernelDecoder &kernel;
  const Statement &statement;
  Inst &inst;

  void finish();

private:
  std::vector<std::string_view> left;
  bool pairTaken = false; // whether the register after '|' was consumed
};

using DecodeFunction = void (*)(Decoder &);
using OpcodeTable = std::unordered_map<std::string_view, DecodeFunction>;

void addArithmetic(OpcodeTable &table);
void addBits(OpcodeTable &table);
void addApproximations(OpcodeTable &table);
void addComparisons(OpcodeTable &table);
void addConversions(OpcodeTable &table);
void addMoves(OpcodeTable &table);
void addAccesses(OpcodeTable &table);
void addAtomics(OpcodeTable &table);
void addWarpOps(OpcodeTable &table);
void addMatrices(OpcodeTable &table);
void addAsyncCopies(OpcodeTable &table);
void addControl(OpcodeTable &table);

} // namespace ptx

#endif
