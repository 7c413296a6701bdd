//===- Tensor.h - What the importer knows about an ONNX value --*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_TENSOR_H
#define TPC_LIB_IMPORT_ONNX_TENSOR_H

#include "tpc/Import/ONNX/TensorSource.h"

#include "tpc/Dialect/Dist.h"

#include <memory>
#include <optional>

namespace mlir::tpc::frontend {

using ::tpc::SymExpr;
using Sizes = SmallVector<SymExpr>;

/// The elements of a small value, known while importing: integers and
/// booleans (0 and 1) as expressions over the symbols of the file, or
/// floating-point numbers. Row-major.
struct Contents {
  std::vector<SymExpr> ints;
  std::vector<double> floats;
  bool isFloat = false;

  size_t size() const { return isFloat ? floats.size() : ints.size(); }
};

/// Values with more elements are never folded.
inline constexpr int64_t kMaxContents = 1024;

/// Bounds of an integer value's elements, both inclusive.
struct Interval {
  SymExpr low, high;
};

/// A value of the ONNX graph. It is an op's result in the program, or a tensor
/// of the file or known contents that become ops where they are needed.
struct Tensor {
  Type element;
  Sizes shape;
  Value value;
  std::shared_ptr<const TensorSource> source;
  std::shared_ptr<const Contents> contents;
  std::optional<Interval> interval;
  /// Those that its sizes show, see Importer::lookup.
  int64_t equalities = 0;

  int64_t rank() const { return shape.size(); }
  bool isFloat() const { return isa<FloatType>(element); }
  bool isBool() const { return element.isInteger(1); }
  bool isInt() const { return isa<IntegerType>(element) && !isBool(); }
  /// The number of elements, if it is no expression.
  std::optional<int64_t> count() const { return product(shape).asConstant(); }
  /// The one integer that this is known to hold.
  std::optional<SymExpr> scalarInt() const {
    if (!contents || contents->isFloat || contents->size() != 1)
      return std::nullopt;
    return contents->ints[0];
  }
  std::optional<double> scalarFloat() const {
    if (!contents || !contents->isFloat || contents->size() != 1)
      return std::nullopt;
    return contents->floats[0];
  }
};

/// `[batch, 12, 64]`.
std::string str(ArrayRef<SymExpr> sizes);

/// False for expressions of a size that no sensible file has, so that products of those that are
/// left stay small.
bool isReasonable(const SymExpr &e);

/// Says what is wrong with sizes that no value can have: a negative one, more elements than fit in
/// 63 bits, no sensible expression. Empty if nothing is.
std::string findFault(ArrayRef<SymExpr> sizes);

} // namespace mlir::tpc::frontend

#endif
