//===- Pieces.h - Proof that steps may be cut into pieces -------*- C++ -*-===//
//
// Compares three runs of one step. The whole run adds a + c tokens to a past of p. The first piece
// adds the first a of them to the same past. The second piece adds the other c to p + a tokens; its
// caches have the contents that the first piece left. p, a and c are symbols, so results hold for
// all of them.
//
//   whole    past p      tokens a + c
//   first    past p      tokens a
//   second   past p + a  tokens c
//
// One lemma per op relates the pieces' values to each value of the whole run. For example, an iota
// begins at 0 in each run, so the second piece's elements are those of the whole run for the same
// tokens, minus a. `tpc.size past` is larger by a in the second piece than in the whole run. Their
// sum, which is positions, is therefore the same for each token in all runs.
//
// In a step on preallocated caches (PreallocatedStep) sizes do not depend on the past. Caches have
// capacity for more tokens than they contain, and the capacity differs between pieces and the whole
// run. Relations hold for the tokens in a cache; elements after them may differ.
//
// Sequences of a batch are pieces as well, of a program without caches: the result of a row does
// not depend on the other rows.
//
// By definition, a cache before the second piece is its result in the first piece. The lemma of
// concatenation assumes that this is the concatenated value. That is checked last, when all values
// are related.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_PIECES_H
#define TPC_LIB_VERIFY_GENERATION_PIECES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::generation {

/// Relation of the pieces' values to a value of the whole run.
struct PieceRelation {
  enum Kind {
    Same,     // equal; and along dimensions whose sizes depend on tokens, all elements are equal
    New,      // elements of the piece's tokens
    Appended, // tokens of the past and of the step, up to the end of the piece
    Cached    // contents of a cache before the step
  };
  Kind kind = Same;
  /// New, Appended: dimension of the tokens, which is major x tokens x minor.
  unsigned dim = 0;
  ::tpc::SymExpr major = 1, minor = 1;
  /// Difference of the elements in the first and second piece from those of the whole run.
  ::tpc::SymExpr inFirst = 0, inSecond = 0;
  FlatSymbolRefAttr cache = {}; // Cached: which cache
  Operation *joint = nullptr;   // Appended: the op that appended, if the value is its result
  /// Value of all elements in all runs, if it is one known number.
  std::optional<int64_t> number = std::nullopt;

  bool isShifted() const { return !inFirst.isConstant(0) || !inSecond.isConstant(0); }
  bool hasTokens() const { return kind == New || kind == Appended; }
  bool hasSameLayout(const PieceRelation &o) const {
    return kind == o.kind && major == o.major && minor == o.minor;
  }
  void setShift(const PieceRelation &o) {
    inFirst = o.inFirst;
    inSecond = o.inSecond;
  }
};

class PieceProver {
public:
  using SymExpr = ::tpc::SymExpr;

  /// `main`: @main of a step without calls.
  PieceProver(func::FuncOp main, const StepSymbols &symbols);
  PieceProver(func::FuncOp main, const PreallocatedStep &step);
  /// Proves independence of the rows of a batch; caches are ordinary inputs and outputs.
  static PieceProver forRows(func::FuncOp main, const std::string &batch);
  LogicalResult run();

  // For lemmas.
  const SymExpr &getPast() const { return past; }
  const SymExpr &getTokens() const { return tokens; }
  const SymExpr &getFirst() const { return first; }   // number of tokens in the first piece
  const SymExpr &getSecond() const { return second; } // and in the second
  SymExpr inWhole(const SymExpr &e) const { return e.substitute(whole); }
  SymExpr inFirst(const SymExpr &e) const { return e.substitute(firstPiece); }
  SymExpr inSecond(const SymExpr &e) const { return e.substitute(secondPiece); }
  bool dependsOnTokens(const SymExpr &e) const;
  bool dependsOnTokens(Type type) const;
  /// Returns the number of tokens, or the capacity, of a value of this kind.
  const SymExpr &countTokens(PieceRelation::Kind kind) const {
    return kind == PieceRelation::New        ? tokens
           : kind == PieceRelation::Appended ? appended
                                             : cached;
  }
  /// Returns whether `value` is the input with the number of tokens in caches (preallocated
  /// caches).
  bool isLengths(Value value) const { return lengths && value == lengths; }
  /// Returns a value whose dimension `dim`, of this size, has only tokens; nothing if it has
  /// others.
  std::optional<PieceRelation> makeTokens(const SymExpr &size, unsigned dim) const;
  /// Returns whether dimension `dim` of `value` has tokens of this kind and no other dimension
  /// depends on tokens. `relation` is the relation of `value`.
  bool isTokens(Value value, const PieceRelation &relation, unsigned dim,
                PieceRelation::Kind kind) const;

  InFlightDiagnostic fail(Operation *op) const;
  /// Returns the relation that follows from the op's formula.
  FailureOr<PieceRelation> relateByFormula(Operation *op, ArrayRef<PieceRelation> operands);
  /// Records that the op appends tokens of the step to a cache.
  void recordAppend(FlatSymbolRefAttr cache, Operation *op) { joints[cache].push_back(op); }

private:
  FailureOr<PieceRelation> relate(Operation *op);
  FailureOr<PieceRelation> findInput(BlockArgument argument);
  LogicalResult checkRelation(Operation *op, Type type, const PieceRelation &relation) const;
  LogicalResult checkOutput(unsigned index, Value value);
  LogicalResult checkCache(FlatSymbolRefAttr cache, Value value);

  PieceProver(func::FuncOp main, const std::string &past, const std::string &tokens);

  func::FuncOp main;
  bool hasCaches = true;
  Value lengths, counts; // inputs of a step on preallocated caches
  SymExpr past, tokens, cached, appended, first, second;
  std::set<std::string> names; // symbols of sizes that depend on tokens
  std::map<std::string, SymExpr> whole, firstPiece, secondPiece;
  DenseMap<Value, PieceRelation> relations;
  DenseMap<Attribute, SmallVector<Operation *, 1>> joints;
};

} // namespace mlir::tpc::generation

#include "PieceOps.h.inc"

#endif // TPC_LIB_VERIFY_GENERATION_PIECES_H
