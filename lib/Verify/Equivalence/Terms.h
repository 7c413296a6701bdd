//===- Terms.h - What values are, as expressions ----------------*- C++ -*-===//
//
// A value of a program as an expression over the model's inputs and weights, each expression
// stored once: two values are equal if their terms have the same number. Distribution does not
// occur in it: the term of a rank's part is the term of the whole value of which it is a part.
//
// A few identities are built in, all of them identities of the numbers in exact arithmetic: sums
// are multisets, which share what they have in common (so additions may be done in another order,
// and a bias may be added after the product), x - y is x + -y, a reshape of a reshape is one, a
// slice that takes one operand of a concatenation out again is that operand, and a sum of n
// elements times 1/n is their mean, which is the same of each element several times.
//
// A call of a layer stays a call, of the term of the layer's body: a layer is looked at once,
// and equal bodies are equal whatever they are called.
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
  /// What is known of such ops: their normal form.
  const TermOpInterface::Concept *model = nullptr;
  Attribute attributes;  // of an op; a parameter's normalized view
  Attribute attributes2; // of a parameter: where its weight lies
  Type type;             // of the whole value
  int64_t index = 0;     // of an input or variable; which result a call gives (always one term)
  TermId body = -1;      // of a call
  bool isCommutative = false;                // of an op: its operands are sorted
  Multisets::Set addends = Multisets::empty; // of a sum; it has no operands
  SmallVector<TermId, 3> operands;
  /// Where it was first seen, in the model and in the program.
  Operation *inModel = nullptr, *inProgram = nullptr;
  /// What first used it in the program.
  Operation *usedInProgram = nullptr;

  bool isOp(StringRef op) const { return kind == Op && name == op; }
};

class Terms {
public:
  const Term &operator[](TermId id) const { return terms[id]; }
  size_t size() const { return terms.size(); }
  const Multisets &getSums() const { return sums; }
  /// There are too many terms, or sums are too large: nothing can be shown any more.
  static constexpr StringLiteral exhausted = "cannot be proved: the expressions of the programs "
                                             "take more memory than a proof is given; are "
                                             "functions called too often, or sums too long?";
  bool isExhausted() const { return terms.size() > maxTerms || sums.size() > maxNodes; }

  TermId makeInput(unsigned index, Type type);
  TermId makeVariable(unsigned index, Type type);
  /// The term of an op with its attributes, with a result of type `type`.
  TermId makeOp(Operation *op, ArrayRef<TermId> operands, Type type);
  /// The term of an op of another kind, to which `op` amounts.
  template <typename OpT>
  TermId makeNamed(Operation *op, ArrayRef<TermId> operands, Type type, Attribute attributes = {}) {
    return makeOp(OperationName(OpT::getOperationName(), op->getContext()), op, operands, type,
                  attributes);
  }
  TermId makeSum(Type type, ArrayRef<TermId> addends, Operation *op);
  /// The term of a weight's view.
  TermId makeParameter(ParameterOp op, ViewAttr view, Type type);
  /// The value of type `type` that has a term's value several times, as `repeats` says.
  TermId makeRepetition(TermId operand, const Repeats &repeats, Type type, Operation *op);
  /// Of a repetition, whatever it was taken out of: what it repeats, and how.
  std::optional<std::pair<TermId, Repeats>> getRepetition(TermId id) const {
    auto it = repetitions.find(id);
    return it == repetitions.end() ? std::nullopt : std::optional(it->second);
  }
  TermId makeCall(TermId body, ArrayRef<TermId> arguments, Operation *op);

  /// The term with its calls replaced by what they compute.
  TermId expand(TermId id);

  /// An op of the program uses these.
  void noteUse(ArrayRef<TermId> operands, Operation *op);
  /// From now on terms come from the program and not from the model.
  void beginProgram() { inProgram = true; }

private:
  TermId intern(Term term, Operation *op);
  TermId makeSum(Type type, Multisets::Set addends, Operation *op);
  TermId makeOp(OperationName name, Operation *op, ArrayRef<TermId> operands, Type type,
                Attribute attributes);
  TermId normalize(Term term, Operation *op);
  /// A term as addends: those of a sum, or itself.
  Multisets::Set getAddends(TermId id);

  /// Variables replaced by arguments, and what has been made of terms and sums.
  struct Substitution {
    SmallVector<TermId> arguments;
    DenseMap<TermId, TermId> done;
    DenseMap<Multisets::Set, Multisets::Set> sums;
  };
  TermId instantiate(TermId id, Substitution &substitution);
  TermId instantiateOne(TermId id, Substitution &substitution);
  std::optional<Multisets::Set> instantiateSum(Multisets::Set set, Substitution &substitution);
  std::vector<TermId> collect(TermId id, const Substitution &substitution) const;

  /// Some hundreds of megabytes. Calls of calls of calls are not replaced beyond this.
  static constexpr size_t maxTerms = 1 << 21, maxNodes = 1 << 22;
  std::vector<Term> terms;
  Multisets sums;
  std::unordered_map<std::string, TermId> known;
  Substitution expanded;
  DenseMap<TermId, std::pair<TermId, Repeats>> repetitions;
  bool inProgram = false;
};

/// Terms of what a whole module computes; `outputs` in the order of the model's.
struct ProgramTerms {
  struct Output {
    TermId term;
    Operation *op;
  };
  SmallVector<Type> inputs, outputTypes; // whole
  SmallVector<Output> outputs;
};

/// Reads a program of any level; of a pipeline it follows the messages. Errors: a message that is
/// not sent, not received, or of another type; an output that is delivered twice, or never, or not
/// by all micro-batches.
FailureOr<ProgramTerms> readProgram(ModuleOp module, Terms &terms);

/// Compares outputs; the first op at which they differ is an error.
LogicalResult compareOutputs(ModuleOp program, Terms &terms, const ProgramTerms &actual,
                             const ProgramTerms &expected);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_TERMS_H
