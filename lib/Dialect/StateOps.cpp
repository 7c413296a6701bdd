//===- StateOps.cpp - KV caches and generation steps ----------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;

#define GET_OP_CLASSES
#include "tpc/Dialect/StateOps.cpp.inc"

std::optional<std::string> mlir::tpc::getSymbolName(const SymExpr &size) {
  if (size.isOverflow() || size.getTerms().size() != 1)
    return std::nullopt;
  const SymExpr::Term &term = size.getTerms()[0];
  if (term.coefficient != 1 || term.atoms.size() != 1 ||
      term.atoms[0].kind != SymExpr::AtomKind::Symbol)
    return std::nullopt;
  return term.atoms[0].name;
}

static std::string getSymbol(SymExprAttr size) { return getSymbolName(size.getExpr()).value(); }

static SymExprAttr makeSymbol(MLIRContext *context, const std::string &symbol) {
  return SymExprAttr::get(context, SymExpr::symbol(symbol));
}

std::optional<StepSymbols> StepSymbols::lookup(ModuleOp module) {
  auto step = module->getAttrOfType<StepAttr>(kStepAttr);
  if (!step || !step.getPast())
    return std::nullopt;
  return StepSymbols{getSymbol(step.getPast()), getSymbol(step.getTokens())};
}

void StepSymbols::attachTo(ModuleOp module) const {
  MLIRContext *context = module.getContext();
  module->setAttr(kStepAttr,
                  StepAttr::get(context, makeSymbol(context, tokens), makeSymbol(context, past)));
}

std::optional<PreallocatedStep> PreallocatedStep::lookup(ModuleOp module) {
  auto step = module->getAttrOfType<StepAttr>(kStepAttr);
  if (!step || !step.getCapacity())
    return std::nullopt;
  PreallocatedStep preallocated{getSymbol(step.getTokens()), getSymbol(step.getCapacity()),
                                step.getLengths().str(), step.getCounts().str(), step.getLast()};
  if (step.getWindow())
    preallocated.windowed = SlidingWindowCaches{
        step.getWindow(), getSymbol(step.getWindowCapacity()), step.getWindowLengths().str()};
  return preallocated;
}

void PreallocatedStep::attachTo(ModuleOp module) const {
  MLIRContext *context = module.getContext();
  auto name = [&](const std::string &text) { return StringAttr::get(context, text); };
  module->setAttr(kStepAttr,
                  StepAttr::get(context, makeSymbol(context, tokens), /*past=*/SymExprAttr(),
                                makeSymbol(context, capacity), name(lengths), name(counts), last,
                                windowed ? windowed->window : 0,
                                windowed ? makeSymbol(context, windowed->capacity) : SymExprAttr(),
                                windowed ? name(windowed->lengths) : StringAttr()));
}

//===----------------------------------------------------------------------===//
// Append
//===----------------------------------------------------------------------===//

LogicalResult AppendOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Sizes cache = getSizes(adaptor.getCache()), fresh = getSizes(adaptor.getFresh());
  Sizes lengths = getSizes(adaptor.getLengths());
  Type element = getElementTypeOrSelf(adaptor.getCache());
  bool fits =
      cache.size() == 4 && fresh.size() == 4 && getElementTypeOrSelf(adaptor.getFresh()) == element;
  for (unsigned d : {0, 1, 3})
    fits = fits && cache[d] == fresh[d];
  if (!fits)
    return inferError(loc, "append needs a cache [batch, heads, capacity, size] and new tokens "
                           "[batch, heads, sequence, size] of one type, not " +
                               describe(cache) + " and " + describe(fresh));
  if (lengths != Sizes{cache[0]})
    return inferError(loc, "append: lengths " + describe(lengths) + " must be " +
                               describe({cache[0]}) + ", one for each sequence");
  types.push_back(makeTensorType(element, cache));
  return success();
}

bool AppendOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }

LogicalResult AppendOp::verify() {
  if (!isLengths(getLengths()))
    return emitOpError() << "takes lengths of i64 or i32, not " << getLengths().getType();
  return success();
}

ShardingRule AppendOp::getShardingRule() {
  ShardingRule rule;
  Sizes cache = getSizes(getCache());
  int b = rule.addFactor(cache[0]), h = rule.addFactor(cache[1]), d = rule.addFactor(cache[3]);
  int all = rule.addFactor(cache[CacheOp::tokenDim], FactorKind::Unsplittable);
  int s = rule.addFactor(getSizes(getFresh())[CacheOp::tokenDim], FactorKind::Unsplittable);
  rule.operands = {{{b}, {h}, {all}, {d}}, {{b}, {h}, {s}, {d}}, {{b}}};
  rule.results = {{{b}, {h}, {all}, {d}}};
  return rule;
}

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

LogicalResult CacheOp::verify() {
  Sizes sizes = getSizes(getType());
  DistAttr dist = getDist(getType());
  if (sizes.size() != 4 || !getSymbolName(sizes[tokenDim]))
    return emitOpError() << "type must be [batch, heads, a symbol for the capacity, size], not "
                         << describe(sizes);
  if (dist.isSharded() || dist.getPartial() || dist.getLocal())
    return emitOpError("must have an unsplit type: the argument's type defines the split");
  return success();
}

LogicalResult CacheOp::verifySymbolUses(SymbolTableCollection &) {
  auto module = (*this)->getParentOfType<ModuleOp>();
  auto main = module ? module.lookupSymbol<FunctionOpInterface>("main") : FunctionOpInterface();
  if (!main || main.isExternal())
    return success();
  auto find = [&](StringRef what, unsigned count, auto attributes, auto type) -> FailureOr<Type> {
    Type found;
    for (unsigned i = 0; i < count; ++i) {
      if (getCache(attributes(i)) != FlatSymbolRefAttr::get(getSymNameAttr()))
        continue;
      if (found)
        return emitOpError() << "belongs to several " << what << "s of @main", failure();
      found = type(i);
    }
    if (!found)
      return emitOpError() << "belongs to no " << what << " of @main", failure();
    auto tensor = dyn_cast<RankedTensorType>(found);
    Sizes own = getSizes(getType());
    Sizes other = tensor ? getSizes(found) : Sizes();
    bool fits = other.size() == own.size() &&
                tensor.getElementType() == cast<RankedTensorType>(getType()).getElementType();
    for (unsigned d = 0; fits && d < own.size(); ++d)
      fits = d == tokenDim || own[d] == other[d];
    if (!fits)
      return emitOpError() << "does not have the type of its " << what << " of @main, " << found,
             failure();
    return found;
  };
  FailureOr<Type> before = find(
      "argument", main.getNumArguments(),
      [&](unsigned i) { return DictionaryAttr::get(getContext(), main.getArgAttrs(i)); },
      [&](unsigned i) { return main.getArgumentTypes()[i]; });
  if (failed(before))
    return failure();
  FailureOr<Type> after = find(
      "result", main.getNumResults(),
      [&](unsigned i) { return DictionaryAttr::get(getContext(), main.getResultAttrs(i)); },
      [&](unsigned i) -> Type {
        // If KV heads are replicated, the cache's type has only the first copy of each.
        Type type = main.getResultTypes()[i];
        auto function = dyn_cast<func::FuncOp>(main.getOperation());
        return function && isa<RankedTensorType>(type)
                   ? getCopies(function, i).getDeliveredType(type)
                   : type;
      });
  if (failed(after))
    return failure();
  SymExpr had = getSizes(*before)[tokenDim], has = getSizes(*after)[tokenDim];
  if ((has - had).lowerBound().value_or(-1) < 0)
    return emitOpError() << "has " << has.str() << " tokens after a step and " << had.str()
                         << " before: a step must not drop tokens";
  return success();
}
