//===- KernelConstants.cpp - Origins of constants in kernels --------------===//
//
// Runs at small sizes do not test every constant, such as an epsilon that is added to large
// numbers, a cap that is never reached, or a large modulus of an index. Constants are therefore
// compared bit for bit. This file lists the constants that each tensor op may require in a kernel,
// derived from the op's description.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"

#include "../Buffers/PartSizes.h"

#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

namespace {
/// Constants and sizes of a tensor function.
class Origins {
public:
  explicit Origins(func::FuncOp tensors) : parts(MeshAttr::lookup(tensors)) {
    for (Type type : tensors.getArgumentTypes())
      addSizes(type);
    tensors.walk([&](Operation *op) {
      addOp(op);
      for (Type type : op->getResultTypes())
        addSizes(type);
      for (NamedAttribute attr : op->getAttrs())
        if (auto expr = dyn_cast<SymExprAttr>(attr.getValue()))
          addSize(expr.getExpr());
    });
  }

  /// Floats that the kernel must have, with the tensor op that requires each.
  llvm::MapVector<Attribute, Operation *> floats;
  /// Integer constants, and index constants.
  std::set<int64_t> integers = {-1, 0, 1}, indices = {0, 1};
  bool hasInteger(IntegerAttr attr) const {
    Type type = attr.getType();
    return type.isInteger(1) ||
           (type.isIndex() ? indices : integers).count(attr.getValue().getSExtValue());
  }
  /// Returns whether a local dimension of some value has this size.
  bool isDim(const SymExpr &size) const { return dims.count(parts.normalize(size).str()); }
  /// Returns whether index arithmetic of these ops needs this size.
  bool isSize(const SymExpr &size) const;

private:
  void addSize(const SymExpr &size) {
    sizes.insert(parts.normalize(size).str());
    sizes.insert(parts.normalize(SymExpr::max(size, 1)).str()); // as a divisor
  }
  void addOp(Operation *op);
  void addFloat(Operation *op, Type type, double x) {
    floats.insert({FloatAttr::get(type, x), op});
  }
  void addSizes(Type type);

  PartSizes parts;
  std::set<std::string> dims = {"1"}, sizes = {"0", "1"}, numbers;
  std::set<std::pair<int64_t, int64_t>> sliceStarts; // start and size of slices
};
} // namespace

/// Returns the type in which elements are computed: f32 for 16-bit floats.
static Type getComputeType(Value tensor) {
  Type element = getElementTypeOrSelf(tensor);
  return element.isF16() || element.isBF16() ? Float32Type::get(element.getContext()) : element;
}

void Origins::addOp(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ConstantOp constant) {
        auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!dense || !dense.isSplat())
          return; // other constants are operands of kernels
        if (auto type = dyn_cast<FloatType>(dense.getElementType()))
          floats.insert({FloatAttr::get(type, dense.getSplatValue<APFloat>()), op});
        else
          integers.insert(dense.getSplatValue<APInt>().getSExtValue());
      })
      // Epsilon is added to the mean of squares.
      .Case<LayerNormOp, RmsNormOp>([&](auto norm) {
        addFloat(op, getComputeType(norm.getX()), norm.getEpsilon().convertToDouble());
      })
      .Case([&](GeluOp gelu) {
        Type type = getComputeType(gelu.getOperand());
        switch (gelu.getApproximate()) {
        case GeluApproximation::None: // x/2 (1 + erf(x / sqrt(2)))
          addFloat(op, type, std::sqrt(0.5));
          return addFloat(op, type, 0.5);
        case GeluApproximation::Tanh: // x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
          addFloat(op, type, 2 * std::sqrt(2 / M_PI));
          return addFloat(op, type, 2 * std::sqrt(2 / M_PI) * 0.044715);
        case GeluApproximation::Sigmoid: // x sigmoid(1.702 x)
          return addFloat(op, type, 1.702);
        }
      })
      // Bits are shifted, and taken modulo their range. Signed numbers are offset by half of it.
      .Case([&](DequantizeOp dequantize) {
        int64_t bits = dequantize.getBits(), range = int64_t(1) << bits,
                zero = dequantize.getZeroPoint();
        if (bits < 8) {
          integers.insert({bits, range, range / 2});
          if (!isUnsigned(dequantize.getPacked().getType()))
            zero += range / 2;
        }
        addFloat(op, getComputeType(dequantize.getScale()), double(zero));
      })
      // The offset of a roll is reduced modulo the length of a run.
      .Case([&](RollOp roll) { addSize(SymExpr::mod(roll.getFrom(), roll.getEvery())); })
      .Case([&](SliceOp slice) {
        indices.insert(slice.getStep());
        std::optional<int64_t> start = slice.getStart().asConstant();
        if (auto size = getSizes(slice.getOperand())[slice.getDim()].asConstant(); start && size)
          sliceStarts.insert({*start, *size});
      })
      // The divisor of a mean.
      .Case([&](ReduceOp reduce) {
        SymExpr count(1);
        for (int64_t dim : reduce.getDims())
          count = count * parts.size(getDist(reduce.getOperand()).getDims()[dim]);
        addSize(count);
      })
      .Case([&](TriluOp trilu) { numbers.insert(trilu.getK().str()); })
      // Adjacent elements are pairs: indices are tested for parity.
      .Case([&](RotaryOp) { indices.insert(2); })
      // One index for each of the first dimensions.
      .Case([&](GatherNDOp gather) {
        for (int64_t i = 0; i < gather.getData().getType().getRank(); ++i)
          indices.insert(i);
      });
}

void Origins::addSizes(Type type) {
  if (!isa<RankedTensorType>(type))
    return;
  for (DimAttr dim : getDist(type).getDims()) {
    dims.insert(parts.normalize(parts.size(dim)).str());
    addSize(dim.getExpr());
    addSize(parts.size(dim));
    addSize(parts.inner(dim));
    addSize(parts.begin(parts.inner(dim), dim.getAxes()));
    // An unsplit factor is contiguous with the preceding factor.
    SymExpr begin, local, global;
    for (auto [i, factor] : llvm::enumerate(dim.getFactors())) {
      bool joins = i > 0 && factor.getAxes().empty();
      SymExpr n = factor.getExpr();
      begin = joins ? begin * n : parts.begin(n, factor.getAxes());
      local = joins ? local * n : parts.size(factor);
      global = joins ? global * n : n;
      for (const SymExpr &size : {begin, local, global, n})
        addSize(size);
    }
  }
}

bool Origins::isSize(const SymExpr &size) const {
  // Static sizes have names. A literal number is rejected, because it would not be reduced at small
  // sizes.
  if (size.getTerms().size() == 1 && std::abs(size.getTerms()[0].coefficient) > 1)
    return numbers.count(size.str()) > 0;
  std::set<std::string> names;
  size.collectSymbols(names);
  for (const std::string &name : names)
    if (auto named = getNamedSize(name); named && named->kind == NamedSize::Offset &&
                                         !sliceStarts.count({named->offset, named->size}))
      return false;
  return sizes.count(parts.normalize(size).str()) > 0;
}

static InFlightDiagnostic fail(kernel::FuncOp function, Operation *op) {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                         << ") in kernel @" << function.getSymName() << ": ";
}

/// Checks that sizes of memory and loops are sizes of dimensions.
static LogicalResult checkDims(kernel::FuncOp function, Operation *op, ArrayRef<SymExpr> sizes,
                               const Origins &origins) {
  for (const SymExpr &size : sizes)
    if (!origins.isDim(size))
      return fail(function, op) << "no dimension of its tensor function has the size '"
                                << size.str() << "'";
  return success();
}

/// Returns whether an argument of a kernel has the row stride of its tensor function's argument.
static bool hasRowStride(kernel::FuncOp function, BlockArgument memory, func::FuncOp tensors,
                         Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  auto want = argument
                  ? tensors.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), kRowStrideAttr)
                  : ArrayAttr();
  auto have = function.getRowStride(memory);
  if (!have || !want)
    return !have && !want;
  return int64_t(have->dims) == cast<IntegerAttr>(want[0]).getInt() &&
         have->stride == cast<SymExprAttr>(want[1]).getExpr();
}

SmallVector<Value> lowered::getKernelOperands(func::FuncOp tensors) {
  SmallVector<Value> operands(tensors.getArguments());
  for (Value result : tensors.front().getTerminator()->getOperands())
    if (auto append = result.getDefiningOp<AppendOp>())
      llvm::erase(operands, append.getCache());
  return operands;
}

/// Checks the memory arguments: operands of the tensor function, except caches to which results are
/// appended, followed by results.
static LogicalResult checkSignature(kernel::FuncOp function, func::FuncOp tensors) {
  PartSizes parts(MeshAttr::lookup(tensors));
  OperandRange results = tensors.front().getTerminator()->getOperands();
  SmallVector<Value> values = lowered::getKernelOperands(tensors);
  llvm::append_range(values, results);
  auto memory = function.getBody().getArguments();
  if (memory.size() != values.size() || function.getNumResults() != results.size())
    return fail(function, function)
           << "it has " << memory.size() << " operands and results, but its "
           << "tensor function " << values.size();
  for (auto [i, argument, value] : llvm::enumerate(memory, values)) {
    Type have = getElementTypeOrSelf(argument.getType()), want = getElementTypeOrSelf(value);
    if (auto integer = dyn_cast<IntegerType>(want))
      want = IntegerType::get(integer.getContext(), integer.getWidth());
    SmallVector<SymExpr> sizes = function.getSizesOf(argument);
    ArrayRef<DimAttr> dims = getDist(value).getDims();
    bool fits = have == want && sizes.size() == dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d)
      fits = parts.normalize(sizes[d]) == parts.normalize(parts.size(dims[d]));
    if (!hasRowStride(function, argument, tensors, value))
      return fail(function, function)
             << "its argument " << i << " does not have the distance between rows of its tensor "
             << "function's argument";
    if (!fits)
      return fail(function, function)
             << "its argument " << i << " does not match that of its tensor "
             << "function, which is " << value.getType();
  }
  return success();
}

LogicalResult lowered::checkConstants(kernel::FuncOp function, func::FuncOp tensors) {
  if (failed(checkSignature(function, tensors)))
    return failure();
  Origins origins(tensors);
  DenseSet<Attribute> seen;
  WalkResult result = function.walk([&](Operation *op) -> WalkResult {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        // The op's verifier checks the initial value of folds.
        .Case<kernel::RowsOp, kernel::ElementsOp, kernel::FoldOp>(
            [&](auto loop) { return checkDims(function, op, loop.getExprs(), origins); })
        .Case([&](kernel::SizeOp size) -> LogicalResult {
          if (origins.isSize(size.getExpr()))
            return success();
          return fail(function, op)
                 << "nothing in its tensor function has the size '" << size.getExpr().str() << "'";
        })
        .Case([&](arith::ConstantOp constant) -> LogicalResult {
          Attribute value = constant.getValue();
          auto number = dyn_cast<FloatAttr>(value);
          auto integer = dyn_cast<IntegerAttr>(value);
          seen.insert(value);
          // -0 differs from 0 in the sign of a reciprocal.
          bool known = number ? origins.floats.contains(value) || number.getValue().isPosZero() ||
                                    number.getValue().isExactlyValue(1)
                       : integer ? origins.hasInteger(integer)
                                 : false;
          if (known)
            return success();
          InFlightDiagnostic diag = fail(function, op)
                                    << "no op of its tensor function has the constant " << value;
          for (auto &[other, from] : origins.floats)
            if (number && !seen.contains(other))
              diag.attachNote(from->getLoc()) << "'" << from->getName() << "' has " << other;
          return diag;
        })
        .Default([](Operation *) { return success(); });
  });
  if (result.wasInterrupted())
    return failure();
  for (auto &[value, op] : origins.floats) {
    auto number = cast<FloatAttr>(value).getValue();
    if (!seen.contains(value) && !number.isZero() && !number.isExactlyValue(1))
      return fail(function, function)
             << "the constant " << value << " of '" << op->getName() << "' ('"
             << getSourceName(op->getLoc()) << "') on tensors is missing";
  }
  return success();
}
