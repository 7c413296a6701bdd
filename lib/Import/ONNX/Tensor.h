//===- Tensor.h - Known facts about an ONNX value ---------------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_TENSOR_H
#define TPC_LIB_IMPORT_ONNX_TENSOR_H

#include "tpc/Import/ONNX/TensorSource.h"

#include "tpc/Dialect/Dist.h"

#include <memory>
#include <optional>

namespace mlir::tpc::frontend {

using ::tpc::SymExpr;
using Sizes = SmallVector<SymExpr>;

/// Elements of a small value that are known during import, row-major. Integers and booleans (0 and
/// 1) are expressions over the file's symbols; other elements are floating-point numbers.
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

/// Value of the ONNX graph: the result of an op in the program, a tensor of the file, or known
/// contents. A parameter or constant op for the latter two is created when an op reads them.
struct Tensor {
  Type element;
  Sizes shape;
  Value value;
  std::shared_ptr<const TensorSource> source;
  std::shared_ptr<const Contents> contents;
  std::optional<Interval> interval;
  /// Bits of an element if several elements share a byte; `element` and `shape` are then those of
  /// the bytes. 8 for 8-bit floats: bytes of the file, or computed f32. Otherwise 0.
  int64_t packedBits = 0;
  /// Shape of packed elements whose rows do not end at a byte; `shape` is then one row of bytes.
  std::optional<Sizes> unalignedShape;
  /// Number of equalities applied to its sizes (see Importer::lookup).
  int64_t equalities = 0;

  int64_t rank() const { return shape.size(); }
  bool isFloat() const { return isa<FloatType>(element); }
  bool isBool() const { return element.isInteger(1); }
  bool isInt() const { return isa<IntegerType>(element) && !isBool(); }
  /// Returns the number of elements if it is constant.
  std::optional<int64_t> count() const { return product(shape).asConstant(); }
  /// Returns the only element, if it is a known integer.
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

/// Prints sizes as `[batch, 12, 64]`.
std::string str(ArrayRef<SymExpr> sizes);

/// Returns false for size expressions that are too complex for any real model. The limit keeps
/// products of the remaining expressions small.
bool isReasonable(const SymExpr &e);

/// Describes why no value can have these sizes: a negative size, more elements than fit in 63 bits,
/// or an expression that is too complex. Returns an empty string if the sizes are valid.
std::string findFault(ArrayRef<SymExpr> sizes);

} // namespace mlir::tpc::frontend

#endif
