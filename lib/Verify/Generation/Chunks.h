//===- Chunks.h - Proof that steps may be split into chunks -----*- C++ -*-===//
//
// Proves that a step of a + c tokens (the combined run) and two consecutive steps of a and c tokens
// (the first and second chunk) compute the same. The second chunk reads the caches that the first
// chunk has written. The numbers p, a and c are symbols, so the proof holds for all values.
//
//   combined   past p      tokens a + c
//   first      past p      tokens a
//   second     past p + a  tokens c
//
// Each op has a lemma that relates its results in the chunks to its result in the combined run. For
// example, an iota begins at 0 in each run, so an element of the second chunk is the element of the
// combined run for the same token, minus a. `tpc.size past` is larger by a in the second chunk than
// in the combined run. The position of a token, which is the sum of both, is therefore equal in all
// runs.
//
// In a step on preallocated caches (PreallocatedStep), sizes do not depend on the past. The
// capacity of caches exceeds the number of tokens, and may differ between runs. Relations hold for
// the tokens in a cache; unused elements may differ.
//
// The same lemmas prove that the sequences of a batch are independent: the chunks are then two
// subsets of the batch, and the program has no caches.
//
// A cache before the second chunk is, by definition, the step's result for this cache in the first
// chunk. The lemma of concatenation assumes that this result is the concatenated value; checkCache
// verifies the assumption after all values have relations.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_CHUNKS_H
#define TPC_LIB_VERIFY_GENERATION_CHUNKS_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::generation {

/// Relation of a value in the two chunks to the value in the combined run.
struct ChunkRelation {
  enum Kind {
    Same,     // equal in all runs, and constant along dimensions whose sizes depend on tokens
    New,      // elements of the chunk's tokens
    Appended, // tokens of the past and of the step, up to the end of the chunk
    Pairs,    // an element for each pair of a New token and an Appended token, such as a mask
    Cached    // contents of a cache before the step
  };
  Kind kind = Same;
  /// New, Appended: dimension of the tokens, which is major x tokens x minor. Pairs: dimension of
  /// the New tokens.
  unsigned dim = 0;
  ::tpc::SymExpr major = 1, minor = 1;
  /// Pairs: dimension of the Appended tokens. Either a later one than `dim`, or `dim` itself, which
  /// then has all pairs, in row-major order.
  unsigned other = 0;
  /// Shift: number by which the elements of the first chunk, and of the second, exceed those of the
  /// combined run.
  ::tpc::SymExpr inFirst = 0, inSecond = 0;
  FlatSymbolRefAttr cache = {}; // Cached: the cache
  Operation *joint = nullptr;   // Appended: the op that appends, if the value is its result
  /// The value, if all elements in all runs have the same known one.
  std::optional<int64_t> number = std::nullopt;

  bool isShifted() const { return !inFirst.isConstant(0) || !inSecond.isConstant(0); }
  bool hasTokens() const { return kind == New || kind == Appended || kind == Pairs; }
  /// Returns the kind of dimension `d`, which depends on tokens. The dimensions of Pairs are New
  /// and Appended, unless one dimension has the pairs.
  Kind getKind(unsigned d) const {
    return kind != Pairs || dim == other ? kind : d == dim ? New : Appended;
  }
  bool hasSameLayout(const ChunkRelation &o) const { return major == o.major && minor == o.minor; }
  void setShift(const ChunkRelation &o) {
    inFirst = o.inFirst;
    inSecond = o.inSecond;
  }
};

class ChunkProver {
public:
  using SymExpr = ::tpc::SymExpr;

  /// `main`: @main of a step without calls.
  ChunkProver(func::FuncOp main, const StepSymbols &symbols);
  ChunkProver(func::FuncOp main, const PreallocatedStep &step);
  /// Proves independence of the rows of a batch; caches are ordinary inputs and outputs.
  static ChunkProver forRows(func::FuncOp main, const std::string &batch);
  LogicalResult run();

  // For lemmas.
  const SymExpr &getPast() const { return past; }
  const SymExpr &getTokens() const { return tokens; }
  const SymExpr &getFirst() const { return first; }   // number of tokens in the first chunk
  const SymExpr &getSecond() const { return second; } // number of tokens in the second chunk
  SymExpr inWhole(const SymExpr &e) const { return e.substitute(whole); }
  SymExpr inFirst(const SymExpr &e) const { return e.substitute(firstChunk); }
  SymExpr inSecond(const SymExpr &e) const { return e.substitute(secondChunk); }
  bool dependsOnTokens(const SymExpr &e) const;
  bool dependsOnTokens(Type type) const;
  /// Returns the number of tokens, or the capacity, of a value of this kind.
  const SymExpr &countTokens(ChunkRelation::Kind kind) const {
    return kind == ChunkRelation::New        ? tokens
           : kind == ChunkRelation::Appended ? appended
                                             : cached;
  }
  /// Returns whether `value` is the input of cache lengths of a step on preallocated caches.
  bool isLengths(Value value) const { return lengths && value == lengths; }
  /// Returns the relation of a value whose dimension `dim` of this size consists only of tokens;
  /// nothing if the size is not a number of tokens.
  std::optional<ChunkRelation> makeTokens(const SymExpr &size, unsigned dim) const;
  /// Returns whether dimension `dim` of `value`, whose relation is `relation`, consists of tokens
  /// of this kind, and no other dimension depends on tokens.
  bool isTokens(Value value, const ChunkRelation &relation, unsigned dim,
                ChunkRelation::Kind kind) const;

  InFlightDiagnostic fail(Operation *op) const;
  /// Returns the relation that follows from the op's formula.
  FailureOr<ChunkRelation> relateByFormula(Operation *op, ArrayRef<ChunkRelation> operands);
  /// Records that the op appends tokens of the step to a cache.
  void recordAppend(FlatSymbolRefAttr cache, Operation *op) { joints[cache].push_back(op); }

private:
  FailureOr<ChunkRelation> relate(Operation *op);
  FailureOr<ChunkRelation> findInput(BlockArgument argument);
  LogicalResult checkRelation(Operation *op, Type type, const ChunkRelation &relation) const;
  LogicalResult checkOutput(unsigned index, Value value);
  LogicalResult checkCache(FlatSymbolRefAttr cache, Value value);

  ChunkProver(func::FuncOp main, const std::string &past, const std::string &tokens);

  func::FuncOp main;
  bool hasCaches = true;
  Value lengths, counts; // inputs of a step on preallocated caches
  SymExpr past, tokens, cached, appended, first, second;
  std::set<std::string> names; // symbols on which the number of tokens depends
  std::map<std::string, SymExpr> whole, firstChunk, secondChunk;
  DenseMap<Value, ChunkRelation> relations;
  DenseMap<Attribute, SmallVector<Operation *, 1>> joints;
};

} // namespace mlir::tpc::generation

#include "ChunkOps.h.inc"

#endif // TPC_LIB_VERIFY_GENERATION_CHUNKS_H
