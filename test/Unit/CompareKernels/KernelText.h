//===- KernelText.h - Statements of a kernel's text -----------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_KERNELTEXT_H
#define TPC_TEST_UNIT_COMPAREKERNELS_KERNELTEXT_H

#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace compare {

/// A statement `@%p1 opcode a, b, c;`. LLVM prints one per line.
struct Statement {
  std::string guard, opcode; // opcode: empty if the line has no statement
  std::vector<std::string> operands;

  static std::optional<Statement> parse(llvm::StringRef line);
  std::string str() const;
  bool is(llvm::StringRef prefix) const { return llvm::StringRef(opcode).starts_with(prefix); }
  std::string &last() { return operands.back(); }
  const std::string &last() const { return operands.back(); }
  /// Returns the registers that the statement writes.
  std::vector<std::string> getResults() const;
};

/// The text of a program with one kernel. Edits do not change line numbers.
class KernelText {
public:
  KernelText(llvm::StringRef ptx, llvm::StringRef kernel);

  size_t size() const { return lines.size(); }
  /// Returns the statement of a line, or nothing for a label or a directive.
  const std::optional<Statement> &operator[](size_t line) const { return statements[line]; }

  std::string str() const { return with(0, lines[0]); }
  /// Returns the text with another statement on a line.
  std::string with(size_t line, llvm::StringRef text) const;
  /// Inserts `trap` at this line.
  std::string withTrap(size_t line) const { return with(line, "trap;"); }
  /// Inserts a `trap` that occurs if another statement would have an effect different from this
  /// line's. Returns nothing if the effect is not in a register; then the difference always occurs.
  std::optional<std::string> withTrapForDifference(size_t line, const Statement &other) const;

  /// Describes the value that a statement computes and its uses, in terms of parameters, threads
  /// and constants instead of registers.
  std::string explain(size_t line) const;

private:
  std::string explain(size_t line, unsigned depth) const;
  std::string explain(llvm::StringRef operand, unsigned depth,
                      std::vector<std::string> &open) const;
  std::string explainResult(const Statement &s, unsigned depth,
                            std::vector<std::string> &open) const;
  bool returnsAt(llvm::StringRef label) const;

  std::vector<std::string> lines;
  std::vector<std::optional<Statement>> statements;
  std::map<std::string, std::vector<size_t>> definitions, uses; // lines, by register
};

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_KERNELTEXT_H
