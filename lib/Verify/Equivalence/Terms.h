//===- Terms.h - Values as symbolic expressions -----------------*- C++ -*-===//
//
// Represents values of a program as hash-consed expressions over the model's inputs and weights:
// two values are equal if their terms have the same id. Terms have no distribution: the term of a
// rank's slice is the term of the global value.
//
// A few identities of exact arithmetic are built in:
//
//   * Sums are multisets that share common subsets. Additions may therefore be reordered, and a
//     bias may be added after the matmul.
//   * x - y is x + -y.
//   * A reshape of a reshape is one reshape.
//   * A slice that extracts one operand of a concatenation is that operand.
//   * A sum of n elements times 1/n is their mean, which does not change if each element is
//     repeated equally often.
//
// A call of a layer is a call of the term of the layer's body. A layer is therefore read once, and
// layers with equal bodies are equal regardless of their names.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_TERMS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_TERMS_H

#include "Multisets.h"
#include "ProofOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::equivalence {

struct Term {
  enum Kind { Op, Sum, Call, Input, Variable, Parameter };
  explicit Term(Kind kind) : kind(kind) {}
  Kind kind;
  StringRef name; // of an op or a weight
  /// Normalization rules of the op; may be null.
  const TermOpInterface::Concept *model = nullptr;
  Attribute attributes;       // of an op; a parameter's normalized view
  Attribute attributes2;      // of a parameter: file, offset and type of its weight
  Type type;                  // of the global value
  int64_t index = 0;          // of an input or variable; of a call: index of the result
  TermId body = -1;           // of a call
  bool isCommutative = false; // of an op: operands are sorted
  Multisets::Set addends = Multisets::empty; // of a sum; it has no operands
  SmallVector<TermId, 3> operands;
  /// First op with this term, in the model and in the program.
  Operation *inModel = nullptr, *inProgram = nullptr;
  /// First op of the program that uses this term.
  Operation *usedInProgram = nullptr;

  bool isOp(StringRef op) const { return kind == Op && name == op; }
};

class Terms {
public:
  const Term &operator[](TermId id) const { return terms[id]; }
  size_t size() const { return terms.size(); }
  const Multisets &getSums() const { return sums; }
  /// Error message if the number of terms or the size of sums exceeds a limit.
  static constexpr StringLiteral exhausted = "cannot be proved: the expressions of the programs "
                                             "take more memory than a proof may use; are "
                                             "functions called too often, or sums too long?";
  bool isExhausted() const { return terms.size() > maxTerms || sums.size() > maxNodes; }

  TermId makeInput(unsigned index, Type type);
  TermId makeVariable(unsigned index, Type type);
  /// Returns the term of `op` with its attributes and a result of type `type`.
  TermId makeOp(Operation *op, ArrayRef<TermId> operands, Type type);
  /// Returns the term of an op `OpT` that is equivalent to `op`.
  template <typename OpT>
  TermId makeNamed(Operation *op, ArrayRef<TermId> operands, Type type, Attribute attributes = {}) {
    return makeOp(OperationName(OpT::getOperationName(), op->getContext()), op, operands, type,
                  attributes);
  }
  TermId makeSum(Type type, ArrayRef<TermId> addends, Operation *op);
  /// Returns the term of a weight's view.
  TermId makeParameter(ParameterOp op, ViewAttr view, Type type);
  /// Returns the term of a value of type `type`: the operand with the repetitions `repeats`.
  TermId makeRepetition(TermId operand, const Repeats &repeats, Type type, Operation *op);
  /// Returns the operand and the repetitions of a term of makeRepetition; nullopt for other terms.
  std::optional<std::pair<TermId, Repeats>> getRepetition(TermId id) const {
    auto it = repetitions.find(id);
    return it == repetitions.end() ? std::nullopt : std::optional(it->second);
  }
  TermId makeCall(TermId body, ArrayRef<TermId> arguments, Operation *op);

  /// Returns the term with all calls replaced by their bodies.
  TermId expand(TermId id);

  /// Records that `op` of the program uses these terms.
  void noteUse(ArrayRef<TermId> operands, Operation *op);
  /// From now on, records ops in `inProgram` instead of `inModel`.
  void beginProgram() { inProgram = true; }

private:
  TermId intern(Term term, Operation *op);
  TermId makeSum(Type type, Multisets::Set addends, Operation *op);
  TermId makeOp(OperationName name, Operation *op, ArrayRef<TermId> operands, Type type,
                Attribute attributes);
  TermId normalize(Term term, Operation *op);
  /// Returns the addends of a sum; of another term, the term itself.
  Multisets::Set getAddends(TermId id);

  /// Arguments that replace variables, and the terms and sums replaced so far.
  struct Substitution {
    SmallVector<TermId> arguments;
    DenseMap<TermId, TermId> done;
    DenseMap<Multisets::Set, Multisets::Set> sums;
  };
  TermId instantiate(TermId id, Substitution &substitution);
  TermId instantiateOne(TermId id, Substitution &substitution);
  std::optional<Multisets::Set> instantiateSum(Multisets::Set set, Substitution &substitution);
  std::vector<TermId> collect(TermId id, const Substitution &substitution) const;

  /// Calls are not expanded beyond these limits (some hundreds of megabytes).
  static constexpr size_t maxTerms = 1 << 21, maxNodes = 1 << 22;
  std::vector<Term> terms;
  Multisets sums;
  std::unordered_map<std::string, TermId> known;
  Substitution expanded;
  DenseMap<TermId, std::pair<TermId, Repeats>> repetitions;
  bool inProgram = false;
};

/// Terms of a module's outputs, in the order of the model's outputs.
struct ProgramTerms {
  struct Output {
    TermId term;
    Operation *op;
  };
  SmallVector<Type> inputs, outputTypes; // global types
  SmallVector<Output> outputs;
};

/// Reads a program of any level; terms of a pipeline are propagated through its messages. Errors: a
/// message without a send or a recv, or with different types; an output that is delivered twice,
/// never, or not by all micro-batches.
FailureOr<ProgramTerms> readProgram(ModuleOp module, Terms &terms);

/// Compares the outputs of both programs; reports the first op at which they differ.
LogicalResult compareOutputs(ModuleOp program, Terms &terms, const ProgramTerms &actual,
                             const ProgramTerms &expected);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_TERMS_H
