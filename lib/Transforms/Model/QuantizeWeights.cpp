//===- QuantizeWeights.cpp - Quantization of weights of matmuls -----------===//

#include "tpc/Transforms/Model/QuantizeWeights.h"
#include "Constants.h"
#include "Movement.h"
#include "PackedMatrix.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Float8.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/Sharding.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Formats and reports
//===----------------------------------------------------------------------===//

constexpr int64_t kSmallestBlock = 16, kLargestBlock = 1 << 20;

std::optional<WeightFormat> WeightFormat::parse(llvm::StringRef text, std::string &error) {
  auto [name, size] = text.split(':');
  bool hasSize = text.contains(':');
  WeightFormat format;
  if (name == "int8") {
    format = {8};
  } else if (name == "int4") {
    format = {4, /*isFloat=*/false, 32};
  } else if (name == "fp8") {
    format = {8, /*isFloat=*/true};
  } else {
    error = "there is no format '" + name.str() +
            "'; formats are fp8, int8 and int4; the last two may have a block size, as in int4:64";
    return std::nullopt;
  }
  if (hasSize && format.isFloat) {
    error = "fp8 has one scale for each column, and no block size";
    return std::nullopt;
  }
  if (hasSize && (size.getAsInteger(10, format.block) || format.block < kSmallestBlock ||
                  format.block > kLargestBlock || !llvm::isPowerOf2_64(format.block))) {
    error = "the block size must be a power of two from 16 to 2^20, not '" + size.str() + "'";
    return std::nullopt;
  }
  return format;
}

int64_t WeightFormat::getBlock(int64_t rows) const {
  for (int64_t size = block; size >= kSmallestBlock; size /= 2)
    if (rows % size == 0)
      return size;
  return rows;
}

const QuantizationReport::Matrix &QuantizationReport::getWorst() const {
  return *llvm::max_element(matrices,
                            [](const Matrix &a, const Matrix &b) { return a.error < b.error; });
}

//===----------------------------------------------------------------------===//
// Weights of matmuls
//===----------------------------------------------------------------------===//

namespace {
/// The right operand of a matmul: a weight, possibly after movement.
struct Weight {
  ParameterOp parameter;
  ViewAttr view; ///< [rows, columns]
  /// The sharding that the parameter's annotation has for the matrix; null if there is none.
  DictionaryAttr annotation;
};

/// Packed numbers and scales of a matrix in the module.
struct PackedWeight {
  WeightOp numbers, scales;
};

struct QuantizeWeights : mlir::tpc::impl::QuantizeWeightsBase<QuantizeWeights> {
  QuantizeWeights() = default;
  explicit QuantizeWeights(QuantizeWeightsOptions options,
                           std::shared_ptr<QuantizationReport> report = {})
      : QuantizeWeightsBase(std::move(options)), report(std::move(report)) {}

  void runOnOperation() override;
  FailureOr<Weight> find(MatmulOp matmul, std::string &reason);
  WeightOp makeWeight(WeightOp original, StringRef kind, RankedTensorType type);
  LogicalResult quantize(MatmulOp matmul, const Weight &weight, raw_ostream &os);
  Value makeMatrix(MatmulOp matmul, const Weight &weight, PackedWeight packed);
  void multiplyFloat8(MatmulOp matmul, const Weight &weight, PackedWeight packed);

  std::shared_ptr<QuantizationReport> report;
  WeightFormat format;
  int64_t offset = 0;                                           // in the new file
  DenseMap<std::pair<Attribute, Attribute>, PackedWeight> done; // by name and view of the weight
};
} // namespace

/// Returns true if the value is computed from a parameter.
static bool isParameter(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (isa<ParameterOp>(op))
      return true;
    if (!isa<CastOp, DequantizeOp>(op) && !isa<MovementOpInterface>(op))
      return false;
    v = op->getOperand(0);
  }
  return false;
}

/// Returns the weight that a matmul multiplies by. On failure `reason` is empty if the right
/// operand is no weight.
FailureOr<Weight> QuantizeWeights::find(MatmulOp matmul, std::string &reason) {
  if (!isParameter(matmul.getRhs()))
    return failure();
  SmallVector<Operation *> ops; // from the matmul to the parameter
  for (Operation *op = matmul.getRhs().getDefiningOp(); !isa<ParameterOp>(op);
       op = op->getOperand(0).getDefiningOp()) {
    ops.push_back(op);
    if (isa<DequantizeOp>(op)) {
      reason = "its weights are quantized already";
      return failure();
    }
  }
  Operation *last = ops.empty() ? matmul.getRhs().getDefiningOp() : ops.back();
  Weight weight;
  weight.parameter =
      ops.empty() ? cast<ParameterOp>(last) : last->getOperand(0).getDefiningOp<ParameterOp>();
  weight.view = weight.parameter.getViewOrDense();
  auto sharding = weight.parameter->getAttrOfType<ArrayAttr>(kShardingAttr);
  for (Operation *op : llvm::reverse(ops)) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      weight.view = weight.view.transpose(transpose.getPermutation());
      if (sharding) {
        SmallVector<Attribute> dims;
        for (int64_t dim : transpose.getPermutation())
          dims.push_back(sharding[dim]);
        sharding = ArrayAttr::get(op->getContext(), dims);
      }
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      auto start = slice.getStart().asConstant();
      weight.view = start && type.hasStaticShape()
                        ? weight.view.slice(slice.getDim(), *start, type.getDimSize(slice.getDim()),
                                            slice.getStep())
                        : ViewAttr();
    } else if (isa<ReshapeOp>(op)) {
      weight.view = type.hasStaticShape() ? weight.view.reshape(type.getShape()) : ViewAttr();
      if (sharding &&
          !llvm::equal(type.getShape(),
                       cast<RankedTensorType>(op->getOperand(0).getType()).getShape())) {
        reason = "its weight has an annotation, and is reshaped";
        return failure();
      }
    } else if (!isa<CastOp>(op)) {
      weight.view = ViewAttr();
    }
    if (!weight.view) {
      reason = "no strided view describes its weight";
      return failure();
    }
  }
  Type element = weight.parameter.getWeightOp().getType().getElementType();
  SmallVector<int64_t> shape = weight.view.getShape();
  if (shape.size() != 2)
    reason = "its weight has " + std::to_string(shape.size()) + " dimensions";
  else if (!element.isF32() && !element.isF16() && !element.isBF16())
    reason = "its weight is not f32, f16 or bf16";
  else if (!isa<FloatType>(elementTypeOf(matmul.getRhs())) ||
           elementTypeOf(matmul.getRhs()).isF64())
    reason = "it is not computed in f32, f16 or bf16";
  else if (shape[0] < 1 || shape[1] < 1)
    reason = "its weight is empty";
  else if (shape[0] * format.bits % 8)
    reason = "a column of " + std::to_string(shape[0]) + " numbers does not end at a byte";
  if (!reason.empty())
    return failure();
  if (sharding) {
    NamedAttrList attrs(weight.parameter->getDiscardableAttrDictionary());
    attrs.set(kShardingAttr, sharding);
    weight.annotation = attrs.getDictionary(matmul.getContext());
  }
  return weight;
}

//===----------------------------------------------------------------------===//
// The packed program
//===----------------------------------------------------------------------===//

/// Declares a weight of the new file, next to the original one.
WeightOp QuantizeWeights::makeWeight(WeightOp original, StringRef kind, RankedTensorType type) {
  ModuleOp module = getOperation();
  std::string base = original.getSymName().str() + "." + kind.str(), name = base;
  for (int i = 2; module.lookupSymbol(name); ++i)
    name = base + "." + std::to_string(i);
  OpBuilder b(original);
  return WeightOp::create(b, original.getLoc(), name, file, 0, type);
}

static std::string getPath(WeightOp weight) {
  SmallString<128> path(weight.getFile());
  auto source = weight->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(kSourceAttr);
  if (!llvm::sys::path::is_absolute(path) && source) {
    path = llvm::sys::path::parent_path(source.getValue());
    llvm::sys::path::append(path, weight.getFile());
  }
  return path.str().str();
}

LogicalResult QuantizeWeights::quantize(MatmulOp matmul, const Weight &weight, raw_ostream &os) {
  WeightOp original = ParameterOp(weight.parameter).getWeightOp();
  SmallVector<int64_t> shape = weight.view.getShape();
  Type element = elementTypeOf(matmul.getRhs());
  PackedWeight &packed = done[{original.getSymNameAttr(), weight.view}];
  if (!packed.numbers) {
    auto failed = [&](llvm::Error error) {
      return matmul.emitError() << "weight '" << original.getSymName()
                                << "' cannot be quantized: " << llvm::toString(std::move(error));
    };
    auto matrix = FileMatrix::open(getPath(original), original.getOffset(),
                                   cast<RankedTensorType>(original.getType()), weight.view);
    if (!matrix)
      return failed(matrix.takeError());
    int64_t block = format.getBlock(shape[0]);
    auto numbers = format.isFloat ? quantizeToFloat8(*matrix)
                                  : mlir::tpc::quantize(*matrix, format.bits, block, element);
    if (!numbers)
      return failed(numbers.takeError());
    auto write = [&](const std::vector<char> &bytes, WeightOp of) {
      of.setOffset(offset);
      uint64_t padding = llvm::offsetToAlignment(bytes.size(), llvm::Align(64));
      os.write(bytes.data(), bytes.size());
      os.write_zeros(padding);
      offset += bytes.size() + padding;
    };
    int64_t blocks = shape[0] / block;
    Builder b(&getContext());
    std::string kind = "int" + std::to_string(format.bits);
    if (format.isFloat) {
      Type bytes = b.getIntegerType(8, /*isSigned=*/false);
      packed.numbers =
          makeWeight(original, "fp8", RankedTensorType::get({shape[1], shape[0]}, bytes));
      packed.scales =
          makeWeight(original, "scale", RankedTensorType::get({shape[1]}, b.getF32Type()));
    } else {
      packed.numbers = makeWeight(
          original, kind,
          RankedTensorType::get({shape[1], blocks, block * format.bits / 8}, b.getI8Type()));
      packed.scales =
          makeWeight(original, "scale", RankedTensorType::get({shape[1], blocks, 1, 1}, element));
    }
    write(numbers->numbers, packed.numbers);
    write(numbers->scales, packed.scales);
    int64_t bytes = numbers->numbers.size() + numbers->scales.size();
    report->matrices.push_back(
        {getSourceName(matmul.getLoc()), original.getSymName().str(), shape[0], shape[1], block,
         bytes, shape[0] * shape[1] * getElementBytes(original.getType()), numbers->error});
  }
  Value old = matmul.getRhs();
  if (format.isFloat)
    multiplyFloat8(matmul, weight, packed);
  else
    matmul.getRhsMutable().assign(makeMatrix(matmul, weight, packed));
  while (Operation *op = old ? old.getDefiningOp() : nullptr) {
    if (!op->use_empty())
      break;
    old = op->getNumOperands() ? op->getOperand(0) : Value();
    op->erase();
  }
  return success();
}

static Value read(OpBuilder &b, Location loc, WeightOp from) {
  auto type = cast<RankedTensorType>(from.getType());
  SmallVector<SymExpr> sizes(
      llvm::map_range(type.getShape(), [](int64_t n) { return SymExpr(n); }));
  return ParameterOp::create(b, loc, makeTensorType(type.getElementType(), sizes),
                             from.getSymName(), ViewAttr());
}

/// Replaces a matmul by that of numbers of E4M3, times the scales of rows and columns.
void QuantizeWeights::multiplyFloat8(MatmulOp matmul, const Weight &weight, PackedWeight packed) {
  OpBuilder b(matmul);
  Location loc = matmul.getLoc();
  auto convert = [&](Value v, Type element) -> Value {
    if (elementTypeOf(v) == element)
      return v;
    return CastOp::create(b, loc, makeTensorType(element, getSizes(v)), v);
  };
  Type single = b.getF32Type();
  auto number = [&](double value) { return createScalar(b, loc, single, value); };
  Value x = convert(matmul.getLhs(), single);
  SmallVector<SymExpr> sizes = getSizes(x);
  sizes.back() = SymExpr(1);
  Value largest = ReduceOp::create(b, loc, makeTensorType(single, sizes), ReduceFunction::Max,
                                   AbsOp::create(b, loc, x), ArrayRef<int64_t>{rankOf(x) - 1},
                                   /*keep_dims=*/true);
  Value scale = DivOp::create(b, loc, largest, number(kLargestFloat8));
  scale = SelectOp::create(b, loc, CmpOp::create(b, loc, Predicate::GT, scale, number(0)), scale,
                           number(1));
  Value rows = createRoundToFloat8(b, loc, DivOp::create(b, loc, x, scale));
  Value bytes = createTranspose(b, loc, read(b, loc, packed.numbers), {1, 0});
  Value columns = createDecodeFloat8(b, loc, bytes);
  if (weight.annotation)
    columns.getDefiningOp()->setDiscardableAttrs(weight.annotation);
  SmallVector<SymExpr> result = getSizes(matmul.getResult());
  Value y = MatmulOp::create(b, loc, makeTensorType(single, result), rows, columns, Value());
  y = MulOp::create(b, loc, y, read(b, loc, packed.scales));
  y = MulOp::create(b, loc, y, scale);
  if (Value bias = matmul.getBias())
    y = AddOp::create(b, loc, y, convert(bias, single));
  y = convert(y, elementTypeOf(matmul.getResult()));
  matmul.getResult().replaceAllUsesWith(y);
  matmul.erase();
}

/// Computes the matrix [rows, columns] before the matmul.
Value QuantizeWeights::makeMatrix(MatmulOp matmul, const Weight &weight, PackedWeight packed) {
  OpBuilder b(matmul);
  Location loc = matmul.getLoc();
  Value numbers = read(b, loc, packed.numbers), scales = read(b, loc, packed.scales);
  Type element = elementTypeOf(scales);
  SmallVector<SymExpr> sizes = getSizes(numbers);
  sizes.push_back(SymExpr(8 / format.bits));
  Value matrix = DequantizeOp::create(b, loc, makeTensorType(element, sizes), numbers, scales,
                                      Value(), format.bits, 0);
  SmallVector<SymExpr> moved = {sizes[1], sizes[2], sizes[3], sizes[0]};
  matrix = TransposeOp::create(b, loc, makeTensorType(element, moved), matrix,
                               ArrayRef<int64_t>{1, 2, 3, 0});
  SmallVector<int64_t> shape = weight.view.getShape();
  matrix = ReshapeOp::create(
      b, loc, makeTensorType(element, {SymExpr(shape[0]), SymExpr(shape[1])}), matrix);
  if (weight.annotation)
    matrix.getDefiningOp()->setDiscardableAttrs(weight.annotation);
  return matrix;
}

void QuantizeWeights::runOnOperation() {
  ModuleOp module = getOperation();
  std::string problem;
  std::optional<WeightFormat> parsed = WeightFormat::parse(type, problem);
  if (!parsed) {
    emitError(module.getLoc()) << "tpc-quantize-weights: " << problem;
    return signalPassFailure();
  }
  format = *parsed;
  if (!report)
    report = std::make_shared<QuantizationReport>();
  SmallVector<std::pair<MatmulOp, Weight>> matmuls;
  module.walk([&](MatmulOp matmul) {
    std::string reason;
    FailureOr<Weight> weight = find(matmul, reason);
    if (succeeded(weight))
      matmuls.push_back({matmul, *weight});
    else if (!reason.empty())
      report->kept.push_back({getSourceName(matmul.getLoc()), reason});
  });
  if (matmuls.empty()) {
    auto diag = emitError(module.getLoc()) << "has no weights of matmuls to quantize";
    if (!report->kept.empty())
      diag << ": matmul '" << report->kept[0].first << "' is left, because "
           << report->kept[0].second << "; compile it without quantization";
    return signalPassFailure();
  }
  auto writeAll = [&](raw_ostream &os) -> llvm::Error {
    for (auto &[matmul, weight] : matmuls)
      if (failed(quantize(matmul, weight, os)))
        return llvm::createStringError("");
    return llvm::Error::success();
  };
  llvm::raw_null_ostream nowhere;
  llvm::Error error = writes ? llvm::writeToOutput(file, writeAll) : writeAll(nowhere);
  if (error) {
    std::string text = llvm::toString(std::move(error));
    if (!text.empty())
      emitError(module.getLoc()) << "the weights '" << file << "' cannot be written: " << text;
    return signalPassFailure();
  }
  for (WeightOp weight : llvm::make_early_inc_range(module.getOps<WeightOp>()))
    if (SymbolTable::symbolKnownUseEmpty(weight, module))
      weight.erase();
}

std::unique_ptr<Pass> mlir::tpc::createQuantizeWeights(QuantizeWeightsOptions options,
                                                       std::shared_ptr<QuantizationReport> report) {
  return std::make_unique<QuantizeWeights>(std::move(options), std::move(report));
}
