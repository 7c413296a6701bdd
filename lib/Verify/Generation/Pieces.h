//===- Pieces.h - A step at once, and in two pieces -------------*- C++ -*-===//
//
// Three runs of one step. The whole one adds a + c tokens to a past of p. The first piece adds the
// first a of them to the same past. The second piece adds the other c to p + a tokens; its caches
// hold what the first piece has left in them. p, a and c are symbols: whatever is shown holds for
// all of them.
//
//   whole    past p      tokens a + c
//   first    past p      tokens a
//   second   past p + a  tokens c
//
// Op by op, by one lemma for each, it is shown what pieces have of each value of the whole run. Of
// iota, say, the second piece has what the whole run has of its tokens, less a: each begins at 0.
// `tpc.size past` is a more in the second piece than in the whole run. So the sum of both, which
// are positions, is the same for each token in all runs.
//
// Of a placed step (PlacedStep) sizes do not have the past. Caches have room for more tokens than
// they hold; in the pieces for other numbers of tokens than in the whole run. What is known of
// them, and of what is made of them, is known of the tokens that they hold: whatever lies behind
// those may differ.
//
// Sequences of a batch are pieces as well, of a program in which nothing is kept: what a row gives
// does not depend on the others.
//
// What a cache holds before the second piece is by definition what its result was in the first.
// That this is the joined value of which the lemma of concatenation speaks is shown last, when all
// of them are known.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_PIECES_H
#define TPC_LIB_VERIFY_GENERATION_PIECES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::generation {

/// What the pieces have of a value, by what the whole run has of it.
struct Part {
  enum Kind {
    Same,   // the same; and along dimensions of which the size has to do with tokens, all elements
            // are
    New,    // of each piece's tokens what the whole run has of them
    Joined, // of tokens of the past and of the step: those before the piece's end
    Held    // what a cache holds before the step
  };
  Kind kind = Same;
  /// New, Joined: where the tokens are. This dimension is major x tokens x minor.
  unsigned dim = 0;
  ::tpc::SymExpr major = 1, minor = 1;
  /// How much more the elements are in the first piece than in the whole run, and in the second.
  ::tpc::SymExpr inFirst = 0, inSecond = 0;
  FlatSymbolRefAttr cache = {}; // Held: in which
  Operation *joint = nullptr;   // Joined: the op that has joined it, of which it is the result
  /// Of all elements in all runs, if that is known.
  std::optional<int64_t> number = std::nullopt;

  bool isMoved() const { return !inFirst.isConstant(0) || !inSecond.isConstant(0); }
  bool hasTokens() const { return kind == New || kind == Joined; }
  bool isSamePlace(const Part &o) const {
    return kind == o.kind && major == o.major && minor == o.minor;
  }
  void takeShift(const Part &o) {
    inFirst = o.inFirst;
    inSecond = o.inSecond;
  }
};

class PieceProver {
public:
  using SymExpr = ::tpc::SymExpr;

  /// @main of a step without calls.
  PieceProver(func::FuncOp main, const StepSymbols &symbols);
  PieceProver(func::FuncOp main, const PlacedStep &step);
  /// Rows of a batch in place of tokens; caches are inputs and outputs as others are.
  static PieceProver ofRows(func::FuncOp main, const std::string &batch);
  LogicalResult run();

  // For lemmas.
  const SymExpr &getPast() const { return past; }
  const SymExpr &getTokens() const { return tokens; }
  const SymExpr &getFirst() const { return first; }   // how many are in the first piece
  const SymExpr &getSecond() const { return second; } // and in the second
  SymExpr inWhole(const SymExpr &e) const { return e.substitute(whole); }
  SymExpr inFirst(const SymExpr &e) const { return e.substitute(firstPiece); }
  SymExpr inSecond(const SymExpr &e) const { return e.substitute(secondPiece); }
  bool dependsOnTokens(const SymExpr &e) const;
  bool dependsOnTokens(Type type) const;
  /// How many tokens a value of this kind has, or room for.
  const SymExpr &countTokens(Part::Kind kind) const {
    return kind == Part::New ? tokens : kind == Part::Joined ? joined : held;
  }
  /// How many tokens caches hold, for each row: only this input of a placed step says so.
  bool isLengths(Value value) const { return lengths && value == lengths; }
  /// A value whose dimension `dim`, of this size, is tokens and nothing else; nothing if it is not.
  std::optional<Part> makeTokens(const SymExpr &size, unsigned dim) const;
  /// Whether dimension `dim` of `value`, which is `part`, is tokens of this kind, and no other one
  /// has to do with tokens.
  bool isTokens(Value value, const Part &part, unsigned dim, Part::Kind kind) const;

  InFlightDiagnostic fail(Operation *op) const;
  /// What follows from the op's formula.
  FailureOr<Part> relateByFormula(Operation *op, ArrayRef<Part> operands);
  /// The op puts tokens of the step behind what is in a cache.
  void noteJoint(FlatSymbolRefAttr cache, Operation *op) { joints[cache].push_back(op); }

private:
  FailureOr<Part> relate(Operation *op);
  FailureOr<Part> findInput(BlockArgument argument);
  LogicalResult checkPart(Operation *op, Type type, const Part &part) const;
  LogicalResult checkOutput(unsigned index, Value value);
  LogicalResult checkCache(FlatSymbolRefAttr cache, Value value);

  PieceProver(func::FuncOp main, const std::string &past, const std::string &tokens);

  func::FuncOp main;
  bool hasCaches = true;
  Value lengths, counts; // inputs of a placed step
  SymExpr past, tokens, held, joined, first, second;
  std::set<std::string> names; // of sizes that have to do with tokens
  std::map<std::string, SymExpr> whole, firstPiece, secondPiece;
  DenseMap<Value, Part> parts;
  DenseMap<Attribute, SmallVector<Operation *, 1>> joints;
};

} // namespace mlir::tpc::generation

#include "PieceOps.h.inc"

#endif // TPC_LIB_VERIFY_GENERATION_PIECES_H
