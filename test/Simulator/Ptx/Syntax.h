//===- Syntax.h - Statements of a function body before decoding -----------===//

#ifndef TPC_TEST_SIMULATOR_PTX_SYNTAX_H
#define TPC_TEST_SIMULATOR_PTX_SYNTAX_H

#include "Lexer.h"
#include "Program.h"

#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// A declared register. Scopes are resolved: each register has a unique number.
struct Register {
  Type type = Type::None;
  Slot slot = 0;
};

struct Operand {
  enum Kind : uint8_t { Reg, Imm, Symbol, Special, Address, Vector, Sink } kind = Sink;
  bool negated = false;          // !%p
  uint32_t reg = 0;              // Reg, and the base of an Address (if no symbol)
  Number number;                 // Imm
  bool minus = false;            // before the number
  std::string_view name;         // name of a Symbol or Special, or an Address's base
  bool hasBase = false;          // an Address has a base register
  int64_t offset = 0;            // offset of an Address or of a Symbol
  std::vector<Operand> elements; // Vector
  int pair = -1;                 // %r1|%p1: the second register
};

struct Statement {
  uint32_t line = 0;
  std::string text;
  int guard = -1; // a register
  bool guardNegated = false;
  std::string_view opcode; // "ld"
  std::vector<std::string_view> modifiers;
  std::vector<Operand> operands;
};

/// The body of one entry.
struct Body {
  std::vector<Register> registers;
  std::vector<Statement> statements;
  std::unordered_map<std::string_view, uint32_t> labels; // index of the next statement
  std::unordered_map<std::string_view, std::vector<std::string_view>> branchTargets;
  std::vector<Variable> locals; // .local
};

/// Decodes a body into the kernel, which already has parameters and shared variables. Throws
/// TextError.
void decode(const Body &body, Program &program, Kernel &kernel);

} // namespace ptx

#endif
