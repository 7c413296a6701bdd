//===- Field.h - Programs run over a prime field ----------------*- C++ -*-===//
//
// The second opinion about a split program: both programs are run, at small sizes, with random
// elements of the field of p = 2^61 - 1 elements in place of numbers. What is linear is exact
// there, so that sums in another order are the same sums; what is not linear is a keyed hash of its
// exact inputs, so that any other input gives, but for a chance of about 2^-61, another output.
// Integers and truth values are themselves.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_ANALYSIS_FIELD_H
#define TPC_LIB_ANALYSIS_FIELD_H

#include "Relation.h"
#include "SizeReduction.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::equivalence {

using Element = uint64_t; // below prime
inline constexpr Element prime = (uint64_t(1) << 61) - 1;

inline Element reduceWide(unsigned __int128 x) {
  x = (x & prime) + (x >> 61);
  x = (x & prime) + (x >> 61);
  return Element(x >= prime ? x - prime : x);
}
inline Element addMod(Element a, Element b) {
  Element sum = a + b;
  return sum >= prime ? sum - prime : sum;
}
inline Element negate(Element a) { return a == 0 ? 0 : prime - a; }
inline Element multiply(Element a, Element b) { return reduceWide((unsigned __int128)a * b); }
inline Element fromInteger(int64_t x) {
  int64_t rest = x % int64_t(prime);
  return rest < 0 ? rest + prime : rest;
}
/// The integer that is meant: those above the middle are negative.
inline int64_t toInteger(Element x) { return x > prime / 2 ? -int64_t(prime - x) : int64_t(x); }
/// A random function of `key` and `x`.
inline Element hash(uint64_t key, Element x) {
  uint64_t h = (x + key * 0x9E3779B97F4A7C15ull) ^ 0xD6E8FEB86659FD93ull;
  for (int i = 0; i < 3; ++i) {
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull + 2 * key;
    h ^= h >> 29;
  }
  return h % prime;
}
uint64_t hashText(StringRef text);

using Shape = SmallVector<int64_t, 4>;
using Indices = SmallVector<std::vector<int64_t>, 4>; // whole indices in each dimension
using Coordinates = std::map<std::string, int64_t>;

struct Tensor {
  Shape shape;
  std::vector<Element> data;

  Tensor() = default;
  explicit Tensor(ArrayRef<int64_t> shape, Element value = 0);
};

void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> f);
int64_t linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape);

/// What does not change while a program runs.
struct FieldContext {
  ModuleOp module;
  GridAttr grid; // of the sample: replicas and micro-batches may be fewer
  const SizeReduction &sizes;
  bool local;

  FieldContext(ModuleOp module, GridAttr grid, const SizeReduction &sizes, bool local)
      : module(module), grid(grid), sizes(sizes), local(local) {}
  const Relation &getRelation(Type type) const;
  /// The indices that a rank holds: all, unless the program is local.
  Indices getIndices(Type type, const Coordinates &at) const;
  Shape getShape(Type type, const Coordinates &at) const;
  Shape getWholeShape(Type type) const;

private:
  mutable DenseMap<Type, std::unique_ptr<Relation>> relations;
};

/// The result of an op without communication on one rank. Errors: an op that is not known, operands
/// whose parts do not fit.
FailureOr<Tensor> evaluateInField(Operation *op, ArrayRef<const Tensor *> operands,
                                  const FieldContext &context, const Coordinates &at);
/// As above, for an op that computes each element by itself; nothing if `op` is none.
std::optional<FailureOr<Tensor>> evaluateElements(Operation *op, ArrayRef<const Tensor *> operands,
                                                  ArrayRef<int64_t> shape);

/// Runs both programs at small sizes and compares all outputs; errors say at which coordinates they
/// differ.
LogicalResult comparePrograms(ModuleOp model, ModuleOp program);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_ANALYSIS_FIELD_H
