//===- BufferOps.cpp - Verification of buffer ops -------------------------===//

#include "tpc/Buffer/Async.h"
#include "tpc/Buffer/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::buffer;

/// Reports an argument of the wrong type. Buffers are passed as their addresses, `BufferType`.
static LogicalResult emitWrongType(Operation *op, size_t argument, bool isBuffer, Type type) {
  return op->emitOpError() << "argument " << argument << " must be "
                           << (isBuffer ? "a buffer" : "a parameter") << ", but is of type "
                           << type;
}

LogicalResult FuncOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getArgs().size() + getResultExtents().size())
    return emitOpError() << "must have an attribute for each argument, but has "
                         << block.getNumArguments() << " arguments and attributes for "
                         << getArgs().size() + getResultExtents().size();
  for (auto [i, value] : llvm::enumerate(block.getArguments())) {
    bool isBuffer = i >= getArgs().size() || cast<ArgumentAttr>(getArgs()[i]).isBuffer();
    if (isBuffer != isa<BufferType>(value.getType()))
      return emitWrongType(*this, i, isBuffer, value.getType());
  }
  if (getStage() && block.getNumArguments())
    return emitOpError("is a stage and must have no arguments");
  return success();
}

LogicalResult buffer::ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<EntryOp>(*this, getEntryAttr()))
    return emitOpError() << "must name a tpc_buffer.entry, but " << getEntryAttr() << " is none";
  return success();
}

LogicalResult buffer::CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "must call a tpc_buffer.func, but " << getCalleeAttr() << " is none";
  if (callee.getArgs().size() != getArgs().size() ||
      callee.getResultExtents().size() != getWrites().size())
    return emitOpError() << "passes " << getArgs().size() << " arguments and " << getWrites().size()
                         << " result buffers, but " << getCalleeAttr() << " has "
                         << callee.getArgs().size() << " and " << callee.getResultExtents().size();
  for (auto [i, value] : llvm::enumerate(getArgs())) {
    bool isBuffer = cast<ArgumentAttr>(callee.getArgs()[i]).isBuffer();
    if (isBuffer != isa<BufferType>(value.getType()))
      return emitWrongType(*this, i, isBuffer, value.getType());
  }
  return success();
}

LogicalResult buffer::AttentionGradOp::verify() {
  ArrayRef<int64_t> of = getOf();
  if (of.empty() || of.size() != getTo().size() || of.front() < 0 || of.back() > 2 ||
      !llvm::is_sorted(of, std::less_equal<int64_t>()))
    return emitOpError("must have a buffer for each of its ascending numbers, which are 0 (q), 1 "
                       "(k) or 2 (v)");
  if (getStrides().size() != 3)
    return emitOpError("must have three strides");
  return success();
}

LogicalResult buffer::WaitOp::verify() {
  if (!getToken().getDefiningOp<buffer::AllReduceStartOp>())
    return emitOpError("must wait for the token of a tpc_buffer.all_reduce_start");
  return success();
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

LogicalResult buffer::ProductOp::verify() {
  size_t count = getParameters().size();
  auto countOf = [](ArrayRef<bool> flags) { return (size_t)llvm::count(flags, true); };
  if (count == 0 || getTo().size() != count || getWidths().size() != count ||
      getEpilogues().size() != count || getWithBias().size() != count ||
      getWithResidual().size() != count || getBiases().size() != countOf(getWithBias()) ||
      getResiduals().size() != countOf(getWithResidual()))
    return emitOpError("must have a parameter, buffer, width and epilogue for each of its matmuls, "
                       "and at least one matmul");
  for (int32_t epilogue : getEpilogues())
    if (!symbolizeEpilogue(epilogue))
      return emitOpError() << "has epilogue " << epilogue
                           << ", which is not the number of an epilogue";
  return success();
}

SmallVector<buffer::ProductOp::Matmul> buffer::ProductOp::getMatmuls() {
  SmallVector<Matmul> matmuls;
  auto bias = getBiases().begin(), residual = getResiduals().begin();
  for (auto [i, parameter] : llvm::enumerate(getParameters()))
    matmuls.push_back({parameter, getWithBias()[i] ? *bias++ : Value(),
                       getWithResidual()[i] ? *residual++ : Value(), getTo()[i],
                       cast<SymExprAttr>(getWidths()[i]), *symbolizeEpilogue(getEpilogues()[i])});
  return matmuls;
}

LogicalResult buffer::QuantizedProductOp::verify() {
  auto isWidth = [](int64_t bits) { return bits == 2 || bits == 4 || bits == 8; };
  if (!isWidth(getBits()) || (getZeroBits() && !isWidth(getZeroBits())))
    return emitOpError() << "has numbers of " << getBits() << " bits and zero points of "
                         << getZeroBits() << "; must be 2, 4 or 8";
  if (getScaleStrides().size() != 2 || (getZeroStrides() && getZeroStrides()->size() != 2))
    return emitOpError("must have two strides: of columns and of blocks");
  if (bool(getZeros()) != getZeroStrides().has_value() || (!getZeros() && getZeroBits()) ||
      (getZeros() && getZeroPoint() != 0))
    return emitOpError("must have zero points and their strides, or one zero point");
  return success();
}

namespace {
/// Operand and attribute lists in which the op stores its matmuls.
struct MatmulLists {
  SmallVector<Value> parameters, biases, residuals, to;
  SmallVector<Attribute> widths;
  SmallVector<int32_t> epilogues;
  SmallVector<bool> withBias, withResidual;

  explicit MatmulLists(ArrayRef<buffer::ProductOp::Matmul> matmuls) {
    for (const auto &matmul : matmuls) {
      parameters.push_back(matmul.parameter);
      to.push_back(matmul.to);
      widths.push_back(matmul.n);
      epilogues.push_back(static_cast<int32_t>(matmul.epilogue));
      withBias.push_back(bool(matmul.bias));
      withResidual.push_back(bool(matmul.residual));
      if (matmul.bias)
        biases.push_back(matmul.bias);
      if (matmul.residual)
        residuals.push_back(matmul.residual);
    }
  }
};
} // namespace

buffer::ProductOp buffer::ProductOp::create(OpBuilder &builder, Location loc, Value x,
                                            SymExprAttr m, SymExprAttr k,
                                            ArrayRef<Matmul> matmuls) {
  MatmulLists lists(matmuls);
  return create(builder, loc, x, lists.parameters, lists.biases, lists.residuals, lists.to, m, k,
                builder.getArrayAttr(lists.widths), lists.epilogues, lists.withBias,
                lists.withResidual);
}

void buffer::ProductOp::setMatmuls(ArrayRef<Matmul> matmuls) {
  MatmulLists lists(matmuls);
  getParametersMutable().assign(lists.parameters);
  getBiasesMutable().assign(lists.biases);
  getResidualsMutable().assign(lists.residuals);
  getToMutable().assign(lists.to);
  setWidthsAttr(ArrayAttr::get(getContext(), lists.widths));
  setEpilogues(lists.epilogues);
  setWithBias(lists.withBias);
  setWithResidual(lists.withResidual);
}

buffer::ProductOp buffer::FusedOp::getProduct() {
  return *getBody().front().getOps<ProductOp>().begin();
}

buffer::LaunchOp buffer::FusedOp::getNormLaunch() {
  return dyn_cast<LaunchOp>(getBody().front().front());
}

buffer::LaunchOp buffer::FusedOp::getActivationLaunch() {
  return dyn_cast<LaunchOp>(getBody().front().back());
}

LogicalResult buffer::FusedOp::verify() {
  Block &body = getBody().front();
  bool hasNorm = getNorm() != Norm::None, hasActivation = getActivation() != Epilogue::None;
  size_t products = 0, before = 0, after = 0;
  for (Operation &op : body)
    if (isa<ProductOp>(op))
      ++products;
    else if (isa<LaunchOp>(op))
      ++(products ? after : before);
    else
      return emitOpError()
             << "must have only tpc_buffer.launch and tpc_buffer.product in its body, "
                "but has "
             << op.getName();
  if (products != 1 || before != size_t(hasNorm) || after != size_t(hasActivation))
    return emitOpError("must have one product in its body, after one launch if it has a norm, and "
                       "before one launch if it has an activation");
  if (!hasNorm && !hasActivation)
    return emitOpError("must have a norm or an activation");
  if (bool(getSource()) != hasNorm || bool(getScale()) != hasNorm || (getShift() && !hasNorm))
    return emitOpError("must have a source and a scale if and only if it has a norm");
  if (bool(getTo()) != hasActivation || (getGated() && !hasActivation))
    return emitOpError("must have a result buffer if and only if it has an activation");
  size_t matmuls = getProduct().getParameters().size();
  if (hasActivation && matmuls != (getGated() ? 2 : 1))
    return emitOpError() << "must have an activation of "
                         << (getGated() ? "two matmuls" : "one matmul") << ", but has " << matmuls;
  return success();
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

static bool isAxes(Attribute attr) {
  auto axes = dyn_cast<ArrayAttr>(attr);
  return axes && llvm::all_of(axes, llvm::IsaPred<StringAttr>);
}

LogicalResult buffer::CollectivePermuteOp::verify() {
  if (getSplits().size() != 4 || !llvm::all_of(getSplits(), isAxes))
    return emitOpError("must have four lists of axes");
  return success();
}

LogicalResult buffer::ExchangeOp::verify() {
  size_t factors = 0;
  for (Attribute dim : getLayout()) {
    auto lists = dyn_cast<ArrayAttr>(dim);
    if (!lists || lists.size() < 2 || lists.size() % 2 || !llvm::all_of(lists, isAxes))
      return emitOpError("must have pairs of lists of axes for each dimension");
    factors += lists.size() / 2 - 1;
  }
  if (factors != getSizes().size())
    return emitOpError() << "must have a size for each factor, but has " << factors
                         << " factors and " << getSizes().size() << " sizes";
  return success();
}

LogicalResult buffer::OutputOp::verify() {
  if (getShape().size() != getOffset().size() || getShape().size() != getSize().size())
    return emitOpError("must have as many offsets and sizes as dimensions");
  if (getEvery() && *getEvery() >= getShape().size())
    return emitOpError() << "must have a dimension in 'every', but has " << getShape().size()
                         << " dimensions and 'every' " << *getEvery();
  return success();
}
