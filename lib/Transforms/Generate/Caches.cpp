//===- Caches.cpp - Construction of steps with KV caches ------------------===//

#include "Caches.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

InFlightDiagnostic mlir::tpc::emitNodeError(Operation *op) {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

LogicalResult mlir::tpc::checkCausal(AttentionOp op, const SymExpr &offset, bool allowsBias) {
  if (!op.getCausal() && !op.getMask() && !op.getBias())
    return emitNodeError(op) << "is not causal: its keys and values cannot be cached";
  if (op.getMask() || (op.getBias() && !(allowsBias && op.getCausal())))
    return emitNodeError(op) << "takes a " << (op.getMask() ? "mask" : "bias")
                             << " of queries and keys as a tensor (a prefix mask?): the visible "
                                "past of a step is unknown";
  if (op.getKeyMask())
    return emitNodeError(op) << "masks tokens by an input, but generation has no masks";
  if (op.getCausalOffset() != offset)
    return emitNodeError(op) << "has queries at offset " << op.getCausalOffset().str()
                             << " from the first key, not " << offset.str();
  return success();
}

std::set<std::string> mlir::tpc::collectSymbols(ModuleOp module) {
  std::set<std::string> symbols;
  auto visit = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (const SymExpr &size : getSizes(type))
        size.collectSymbols(symbols);
  };
  module.walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), visit);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), visit);
  });
  return symbols;
}

std::string mlir::tpc::makeSymbol(const std::set<std::string> &taken, StringRef name) {
  std::string symbol = name.str();
  for (unsigned i = 1; taken.count(symbol); ++i)
    symbol = (name + "_" + Twine(i)).str();
  return symbol;
}

CachePort mlir::tpc::addCache(SymbolTable &table, func::FuncOp main, StringRef name,
                              RankedTensorType type, RankedTensorType before) {
  OpBuilder builder(main);
  auto cache = CacheOp::create(builder, main.getLoc(), name, type);
  cache->remove();
  StringAttr unique = table.insert(cache, main->getIterator());
  auto attributes =
      builder.getDictionaryAttr({builder.getNamedAttr(kCacheAttr, FlatSymbolRefAttr::get(unique)),
                                 builder.getNamedAttr(kNameAttr, unique)});
  unsigned at = main.getNumArguments();
  (void)main.insertArgument(at, before, attributes, main.getLoc());
  return {main.getArgument(at), attributes};
}

void mlir::tpc::addCacheResult(func::FuncOp main, Value contents, DictionaryAttr attributes) {
  Operation *end = main.front().getTerminator();
  end->insertOperands(end->getNumOperands(), contents);
  (void)main.insertResult(main.getNumResults(), contents.getType(), attributes);
}

CacheMaker::CacheMaker(ModuleOp module, func::FuncOp main, StepSymbols step)
    : module(module), main(main), step(std::move(step)), table(module) {
  std::set<std::string> taken = collectSymbols(module);
  taken.insert(this->step.past);
  capacity = makeSymbol(taken, "capacity");
}

Value CacheMaker::append(Value fresh, StringRef kind) {
  Value &known = appended[fresh];
  if (known)
    return known;
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  Location loc = fresh.getLoc();
  Type element = elementTypeOf(fresh);
  SmallVector<SymExpr> sizes = getSizes(fresh); // batch, tokens, heads, size
  auto makeType = [&](const SymExpr &tokens) {
    return makeTensorType(element, {sizes[0], sizes[2], tokens, sizes[3]});
  };
  CachePort port =
      addCache(table, main, (kind + Twine(layer)).str(), makeType(SymExpr::symbol(capacity)),
               makeType(SymExpr::symbol(step.past)));
  builder.setInsertionPointAfterValue(fresh);
  SmallVector<int64_t> swap = {0, 2, 1, 3}; // swaps tokens and heads
  Value headsFirst = TransposeOp::create(builder, loc, makeType(sizes[1]), fresh, swap);
  Type after = makeType(SymExpr::symbol(step.past) + sizes[1]);
  Value all = ConcatOp::create(builder, loc, after, ValueRange{port.argument, headsFirst},
                               CacheOp::tokenDim);
  addCacheResult(main, all, port.attributes);
  Type keys = makeTensorType(element,
                             {sizes[0], SymExpr::symbol(step.past) + sizes[1], sizes[2], sizes[3]});
  return appended[fresh] = TransposeOp::create(builder, loc, keys, all, swap);
}

void CacheMaker::attach(AttentionOp op, Value keys, Value values) {
  // Copies, not references into the map: the second call may move the first value.
  OpBuilder builder(op);
  auto read = [&](Value fresh, StringRef kind, Value operand) -> Value {
    Value all = append(fresh, kind);
    Type element = elementTypeOf(operand);
    if (elementTypeOf(all) == element)
      return all;
    return CastOp::create(builder, op.getLoc(), makeTensorType(element, getSizes(all)), all);
  };
  Value allKeys = read(keys, "k", op.getK());
  Value allValues = read(values, "v", op.getV());
  op.getKMutable().assign(allKeys);
  op.getVMutable().assign(allValues);
  op.setCausalOffsetAttr(SymExprAttr::get(op.getContext(), SymExpr::symbol(step.past)));
  ++layer;
}
