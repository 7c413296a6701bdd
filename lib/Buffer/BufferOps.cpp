//===- BufferOps.cpp - Verification of buffer ops -------------------------===//

#include "tpc/Buffer/Buffer.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::buffer;

LogicalResult FuncOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getArgs().size() + getResultsPlaces().size())
    return emitOpError() << "has " << block.getNumArguments() << " arguments, but attributes for "
                         << getArgs().size() + getResultsPlaces().size();
  for (auto [i, value] : llvm::enumerate(block.getArguments())) {
    bool isBuffer = i >= getArgs().size() || cast<ArgumentAttr>(getArgs()[i]).isBuffer();
    if (isBuffer != isa<PlaceType>(value.getType()))
      return emitOpError() << "argument " << i << " is of type " << value.getType();
  }
  if (getStage() && block.getNumArguments())
    return emitOpError("is a stage, which has no arguments");
  return success();
}

LogicalResult buffer::ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<EntryOp>(*this, getEntryAttr()))
    return emitOpError() << getEntryAttr() << " is not a tpc_buffer.entry";
  return success();
}

LogicalResult buffer::CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << getCalleeAttr() << " is not a tpc_buffer.func";
  if (callee.getArgs().size() != getArgs().size() ||
      callee.getResultsPlaces().size() != getWrites().size())
    return emitOpError() << "passes " << getArgs().size() << " arguments and " << getWrites().size()
                         << " result buffers, but " << getCalleeAttr() << " has "
                         << callee.getArgs().size() << " and " << callee.getResultsPlaces().size();
  for (auto [i, value] : llvm::enumerate(getArgs()))
    if (cast<ArgumentAttr>(callee.getArgs()[i]).isBuffer() != isa<PlaceType>(value.getType()))
      return emitOpError() << "argument " << i << " is of type " << value.getType();
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
    return emitOpError("has lists of different lengths, or none");
  for (int32_t epilogue : getEpilogues())
    if (!symbolizeEpilogue(epilogue))
      return emitOpError() << "has no epilogue " << epilogue;
  return success();
}

SmallVector<buffer::ProductOp::Matmul> buffer::ProductOp::getMatmuls() {
  SmallVector<Matmul> parts;
  auto bias = getBiases().begin(), residual = getResiduals().begin();
  for (auto [i, parameter] : llvm::enumerate(getParameters()))
    parts.push_back({parameter, getWithBias()[i] ? *bias++ : Value(),
                     getWithResidual()[i] ? *residual++ : Value(), getTo()[i],
                     cast<SymExprAttr>(getWidths()[i]), *symbolizeEpilogue(getEpilogues()[i])});
  return parts;
}

namespace {
/// Operand and attribute lists in which the op stores its matmuls.
struct Lists {
  SmallVector<Value> parameters, biases, residuals, to;
  SmallVector<Attribute> widths;
  SmallVector<int32_t> epilogues;
  SmallVector<bool> withBias, withResidual;

  explicit Lists(ArrayRef<buffer::ProductOp::Matmul> parts) {
    for (const auto &part : parts) {
      parameters.push_back(part.parameter);
      to.push_back(part.to);
      widths.push_back(part.n);
      epilogues.push_back(static_cast<int32_t>(part.epilogue));
      withBias.push_back(bool(part.bias));
      withResidual.push_back(bool(part.residual));
      if (part.bias)
        biases.push_back(part.bias);
      if (part.residual)
        residuals.push_back(part.residual);
    }
  }
};
} // namespace

buffer::ProductOp buffer::ProductOp::create(OpBuilder &builder, Location loc, Value x,
                                            SymExprAttr m, SymExprAttr k, ArrayRef<Matmul> parts) {
  Lists lists(parts);
  return create(builder, loc, x, lists.parameters, lists.biases, lists.residuals, lists.to, m, k,
                builder.getArrayAttr(lists.widths), lists.epilogues, lists.withBias,
                lists.withResidual);
}

void buffer::ProductOp::setMatmuls(ArrayRef<Matmul> parts) {
  Lists lists(parts);
  getParametersMutable().assign(lists.parameters);
  getBiasesMutable().assign(lists.biases);
  getResidualsMutable().assign(lists.residuals);
  getToMutable().assign(lists.to);
  setWidthsAttr(ArrayAttr::get(getContext(), lists.widths));
  setEpilogues(lists.epilogues);
  setWithBias(lists.withBias);
  setWithResidual(lists.withResidual);
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
    return emitOpError("needs four lists of axes");
  return success();
}

LogicalResult buffer::ExchangeOp::verify() {
  size_t factors = 0;
  for (Attribute dim : getLayout()) {
    auto lists = dyn_cast<ArrayAttr>(dim);
    if (!lists || lists.size() < 2 || lists.size() % 2 || !llvm::all_of(lists, isAxes))
      return emitOpError("needs pairs of lists of axes for each dimension");
    factors += lists.size() / 2 - 1;
  }
  if (factors != getSizes().size())
    return emitOpError() << "has " << factors << " factors and " << getSizes().size() << " sizes";
  return success();
}

LogicalResult buffer::OutputOp::verify() {
  if (getShape().size() != getOffset().size() || getShape().size() != getSize().size())
    return emitOpError("has lists of different lengths");
  if (getEvery() && *getEvery() >= getShape().size())
    return emitOpError() << "has no dimension " << *getEvery();
  return success();
}
