//===- Node.h - ONNX node during its import ---------------------*- C++ -*-===//
//
// Interface of op handlers: typed access to inputs and attributes, setters of results, and builders
// of the dialect's ops with exact symbolic types. A wrong attribute is reported once, and the node
// fails after its handler returns. Handlers therefore need not check attributes.
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
  /// Domain and version of the operator set that defines this node.
  StringRef domain;
  int64_t version;
  Location loc;
  OpBuilder &b;

  //===--- messages ---------------------------------------------------------===//
  /// Emits an error that begins with the node's name.
  InFlightDiagnostic error();
  bool failed() const { return hasFailed; }
  /// Emits an error: input `i` must be known during import.
  LogicalResult needsKnown(unsigned i, StringRef what);

  //===--- inputs -----------------------------------------------------------===//
  unsigned numInputs() const { return inputs.size(); }
  /// Returns true if the input is present (optional inputs may be missing).
  bool has(unsigned i) const { return i < inputs.size() && inputs[i]; }
  const Tensor &in(unsigned i) const { return *inputs[i]; }
  /// Returns the input as an SSA value. Each call creates a new parameter or constant.
  Value operand(unsigned i) { return materialize(in(i)); }
  Value materialize(const Tensor &tensor);
  /// Same as `operand` for a weight, which becomes a parameter also if it is small.
  Value weight(unsigned i);
  /// Reports an error unless there are `minInputs` to `maxInputs` inputs and the first `minInputs`
  /// are present.
  LogicalResult expectInputs(unsigned minInputs, unsigned maxInputs);
  LogicalResult expectInputs(unsigned n) { return expectInputs(n, n); }
  LogicalResult expectFloat(unsigned i);
  /// Reports an error for inputs with several elements per byte.
  LogicalResult expectWholeBytes();
  /// Returns the integers of a vector or scalar that is known during import.
  FailureOr<std::vector<SymExpr>> knownInts(unsigned i, StringRef what);
  /// Same as `knownInts` for the sizes of a shape, which may include -1.
  FailureOr<Sizes> knownSizes(unsigned i, StringRef what);
  /// Same as `knownInts` for constants only.
  FailureOr<SmallVector<int64_t>> constantInts(unsigned i, StringRef what);

  //===--- attributes -------------------------------------------------------===//
  const ::onnx::AttributeProto *attribute(StringRef name, int type);
  bool hasAttribute(StringRef name) const;
  int64_t getInt(StringRef name, int64_t otherwise);
  double getFloat(StringRef name, double otherwise);
  std::string getString(StringRef name, StringRef otherwise);
  std::optional<SmallVector<int64_t>> getInts(StringRef name);
  /// Accepts an attribute that has no effect here.
  void ignore(StringRef name) { seen.insert(name); }
  /// Fails if the node has an attribute that the handler has neither read nor ignored.
  LogicalResult expectNoMoreAttributes();
  /// Returns an axis in [0, rank). A negative axis counts from the end.
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes, int64_t rank);

  //===--- results ----------------------------------------------------------===//
  unsigned numOutputs() const;
  /// Returns true if output `i` has a use.
  bool isUsed(unsigned i) const;
  LogicalResult expectUnused(unsigned i, StringRef what);
  LogicalResult set(unsigned i, Tensor tensor);
  LogicalResult result(Tensor tensor) { return set(0, std::move(tensor)); }
  LogicalResult result(Value value) { return set(0, wrap(value)); }
  LogicalResult resultContents(Type element, Sizes shape, Contents contents);
  Tensor wrap(Value value);

  //===--- sizes ------------------------------------------------------------===//
  /// Returns true if two sizes are equal. If they are not, tries in this order:
  /// 1. One size is a symbol of an input: the node fails and is imported again with it replaced.
  /// 2. They are equal if, for example, min(8, sequence) is sequence: the node is imported again
  ///    with that choice and the constraint sequence <= 8.
  /// 3. They are equal if there are no past tokens: the node is imported again with empty caches,
  ///    with a warning.
  /// 4. Otherwise reports an error that ends with `what`.
  bool equate(const SymExpr &a, const SymExpr &b, const Twine &what);
  FailureOr<Sizes> broadcast(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b);
  /// Requires low <= expr <= high for every run.
  void constrain(const SymExpr &expr, std::optional<int64_t> low, std::optional<int64_t> high,
                 const Twine &why);
  /// Returns true if e >= 0 for all sizes, after a constraint excludes size zero if necessary.
  bool assumeNonNegative(const SymExpr &e, const Twine &why);
  /// Returns the minimum or maximum. If one operand is always the result except for sizes of zero,
  /// or `equate` chose it, returns that operand and excludes the other case by a constraint.
  SymExpr minimum(const SymExpr &a, const SymExpr &b, const Twine &why);
  SymExpr maximum(const SymExpr &a, const SymExpr &b, const Twine &why);

  //===--- building ---------------------------------------------------------===//
  // All builders return a null value after an error.
  RankedTensorType type(Type element, ArrayRef<SymExpr> sizes);
  Value reshape(Value v, ArrayRef<SymExpr> sizes);
  Value transpose(Value v, ArrayRef<int64_t> permutation);
  Value expand(Value v, ArrayRef<SymExpr> sizes);
  Value slice(Value v, int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step = 1);
  Value concat(ArrayRef<Value> values, int64_t dim);
  Value cast(Value v, Type element);
  Value matmul(Value lhs, Value rhs, Value bias = {});
  /// Returns the numbers [.., 8 / bits] in packed bytes, see tpc.dequantize.
  Value dequantize(Value packed, Value scale, Value zero, int64_t bits, int64_t zeroPoint = 0);
  Value softmax(Value v, int64_t dim);
  Value layerNorm(Value x, Value scale, Value bias, double epsilon);
  Value rmsNorm(Value x, Value scale, double epsilon);
  Value reduce(ReduceFunction function, Value v, ArrayRef<int64_t> dims, bool keep);
  /// Returns the index of the largest or smallest element along a dimension, the first (or last) of
  /// equal ones. NaN counts as extreme.
  Value argExtreme(ReduceFunction function, Value v, int64_t dim, bool keep, bool last = false);
  /// Returns the integers `v`, which must be below `size`; others are an error at run time. Indices
  /// from -size on count from the end if `wraps`.
  Value checkedIndex(Value v, const SymExpr &size, bool wraps);
  /// Returns 0, 1, … along dimension `dim` of a tensor of `rank` dimensions, of which the others
  /// have size 1.
  Value iota(const SymExpr &size, int64_t dim, int64_t rank);
  Value constant(Type element, double number);
  /// Creates a constant with the element type of `like`.
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

/// Returns the element type of a tensor. A function here, because Node::cast hides `mlir::cast` in
/// members of Node.
inline Type elementOf(Value v) {
  return mlir::cast<RankedTensorType>(v.getType()).getElementType();
}
using mlir::tpc::rankOf;

/// Returns a scalar that is computed from sizes, as an expression of them.
std::optional<SymExpr> getSize(Value value);

} // namespace mlir::tpc::frontend

#endif
