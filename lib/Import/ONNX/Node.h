//===- Node.h - One ONNX node while it is imported -------------*- C++ -*-===//
//
// What a handler of an op sees: typed access to inputs and attributes, the
// results to be set, and helpers that build the dialect's ops with the exact
// symbolic type. A wrong attribute is reported once and makes the node fail
// after its handler has returned, so that handlers need not check.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_IMPORT_ONNX_NODE_H
#define TPC_LIB_IMPORT_ONNX_NODE_H

#include "Tensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
} // namespace onnx

namespace mlir::tpc::frontend {

class Importer;
struct Scope;

class Node {
public:
  Node(Importer &importer, Scope &scope, const ::onnx::NodeProto &proto, StringRef domain,
       int64_t version, Location loc);

  Importer &importer;
  Scope &scope;
  const ::onnx::NodeProto &proto;
  /// The operator set that the file reads this node by.
  StringRef domain;
  int64_t version;
  Location loc;
  OpBuilder &b;

  //===--- messages ---------------------------------------------------------===//
  /// An error that begins with the node's name.
  InFlightDiagnostic error();
  bool failed() const { return hasFailed; }
  /// Says that input `i` must be known while importing.
  LogicalResult needsKnown(unsigned i, StringRef what);

  //===--- inputs -----------------------------------------------------------===//
  unsigned numInputs() const { return inputs.size(); }
  /// True if the input is given (optional ones may be missing).
  bool has(unsigned i) const { return i < inputs.size() && inputs[i]; }
  const Tensor &in(unsigned i) const { return *inputs[i]; }
  /// The input as an SSA value. Each call makes a new parameter or constant.
  Value operand(unsigned i) { return materialize(in(i)); }
  Value materialize(const Tensor &tensor);
  /// Fails with a message unless the number of inputs is in range and the first `least` are given.
  LogicalResult expectInputs(unsigned least, unsigned most);
  LogicalResult expectInputs(unsigned n) { return expectInputs(n, n); }
  LogicalResult expectFloat(unsigned i);
  /// Integers that are known while importing: a vector or a scalar.
  FailureOr<std::vector<SymExpr>> knownInts(unsigned i, StringRef what);
  /// The same as sizes of a shape, among which may be -1.
  FailureOr<Sizes> knownSizes(unsigned i, StringRef what);
  /// The same, constants only.
  FailureOr<SmallVector<int64_t>> constantInts(unsigned i, StringRef what);

  //===--- attributes -------------------------------------------------------===//
  const ::onnx::AttributeProto *attribute(StringRef name, int type);
  bool hasAttribute(StringRef name) const;
  int64_t getInt(StringRef name, int64_t otherwise);
  double getFloat(StringRef name, double otherwise);
  std::string getString(StringRef name, StringRef otherwise);
  std::optional<SmallVector<int64_t>> getInts(StringRef name);
  /// Says that the attribute has no influence here.
  void ignore(StringRef name) { seen.insert(name); }
  /// Fails if the node has an attribute that nobody asked for.
  LogicalResult expectNoMoreAttributes();
  /// An axis in [0, rank), given from the end if negative.
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes, int64_t rank);

  //===--- results ----------------------------------------------------------===//
  unsigned numOutputs() const;
  /// True if somebody uses output `i`.
  bool isUsed(unsigned i) const;
  LogicalResult expectUnused(unsigned i, StringRef what);
  LogicalResult set(unsigned i, Tensor tensor);
  LogicalResult result(Tensor tensor) { return set(0, std::move(tensor)); }
  LogicalResult result(Value value) { return set(0, wrap(value)); }
  LogicalResult resultContents(Type element, Sizes shape, Contents contents);
  Tensor wrap(Value value);

  //===--- sizes ------------------------------------------------------------===//
  /// True if two sizes are equal. Where they are not and one is a symbol of an input, the node
  /// fails and is imported again with that symbol replaced; where they would be if min(8, sequence)
  /// were sequence, again with that, and a constraint sequence <= 8; otherwise reports an error
  /// that ends with `what`.
  bool equate(const SymExpr &a, const SymExpr &b, const Twine &what);
  FailureOr<Sizes> broadcast(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b);
  /// Requires low <= expr <= high of every run.
  void constrain(const SymExpr &expr, std::optional<int64_t> low, std::optional<int64_t> high,
                 const Twine &why);
  /// True if e >= 0 for all sizes, or once a size of zero is excluded by a constraint.
  bool assumeNonNegative(const SymExpr &e, const Twine &why);
  /// The smaller or larger one. If it is always the same one but for sizes of zero, or `equate`
  /// found that it must be, that one, and a constraint excludes the rest.
  SymExpr minimum(const SymExpr &a, const SymExpr &b, const Twine &why);
  SymExpr maximum(const SymExpr &a, const SymExpr &b, const Twine &why);

  //===--- building ---------------------------------------------------------===//
  // All of them return a null value after an error.
  RankedTensorType type(Type element, ArrayRef<SymExpr> sizes);
  Value reshape(Value v, ArrayRef<SymExpr> sizes);
  Value transpose(Value v, ArrayRef<int64_t> permutation);
  Value expand(Value v, ArrayRef<SymExpr> sizes);
  Value slice(Value v, int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step = 1);
  Value concat(ArrayRef<Value> values, int64_t dim);
  Value cast(Value v, Type element);
  Value matmul(Value lhs, Value rhs, Value bias = {});
  Value softmax(Value v, int64_t dim);
  Value layerNorm(Value x, Value scale, Value bias, double epsilon);
  Value rmsNorm(Value x, Value scale, double epsilon);
  Value reduce(ReduceFunction function, Value v, ArrayRef<int64_t> dims, bool keep);
  Value constant(Type element, double number);
  /// A constant of the element type of `like`.
  Value scalar(double number, Value like) {
    return constant(cast<RankedTensorType>(like.getType()).getElementType(), number);
  }
  Value size(const SymExpr &expr, Type element);
  Value compare(Predicate predicate, Value lhs, Value rhs);
  Value select(Value condition, Value lhs, Value rhs);

  template <typename OpTy> Value unary(Value v) {
    return v ? Value(OpTy::create(b, loc, v.getType(), v)) : v;
  }
  template <typename OpTy> Value binary(Value lhs, Value rhs) {
    if (!lhs || !rhs || !expectSameType<OpTy>(lhs, rhs))
      return {};
    FailureOr<Sizes> sizes = broadcast(getSizes(lhs), getSizes(rhs));
    if (failed_(sizes))
      return {};
    Type element = mlir::cast<RankedTensorType>(lhs.getType()).getElementType();
    return OpTy::create(b, loc, type(element, *sizes), lhs, rhs);
  }

private:
  template <typename OpTy> bool expectSameType(Value lhs, Value rhs) {
    return std::is_same_v<OpTy, PowOp> || sameTypes(lhs, rhs);
  }
  bool sameTypes(Value lhs, Value rhs);
  std::optional<bool> isLess(const SymExpr &a, const SymExpr &b, const Twine &why);
  template <typename T> static bool failed_(const FailureOr<T> &f) { return mlir::failed(f); }

  SmallVector<const Tensor *> inputs;
  llvm::StringSet<> seen;
  bool hasFailed = false;
};

/// `mlir::cast` is hidden by Node::cast in its members.
inline Type elementOf(Value v) {
  return mlir::cast<RankedTensorType>(v.getType()).getElementType();
}
using mlir::tpc::rankOf;

} // namespace mlir::tpc::frontend

#endif
