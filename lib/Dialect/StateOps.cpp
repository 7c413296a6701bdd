//===- StateOps.cpp - What stays between steps of a generation ------------===//

#include "OpHelpers.h"
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

std::optional<StepSymbols> StepSymbols::lookup(ModuleOp module) {
  auto fields = module->getAttrOfType<DictionaryAttr>(kStepAttr);
  if (!fields)
    return std::nullopt;
  auto read = [&](StringRef name) {
    auto size = fields.getAs<SymExprAttr>(name);
    return size ? getSymbolName(size.getExpr()) : std::nullopt;
  };
  auto past = read("past"), tokens = read("tokens");
  return past && tokens ? std::optional<StepSymbols>({*past, *tokens}) : std::nullopt;
}

void StepSymbols::attachTo(ModuleOp module) const {
  Builder builder(module.getContext());
  auto entry = [&](StringRef name, const std::string &symbol) {
    return builder.getNamedAttr(name,
                                SymExprAttr::get(module.getContext(), SymExpr::symbol(symbol)));
  };
  module->setAttr(kStepAttr,
                  builder.getDictionaryAttr({entry("past", past), entry("tokens", tokens)}));
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
    return emitOpError("is declared as a whole: the argument's type says how it is split");
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
        return emitOpError() << "is that of several " << what << "s of @main", failure();
      found = type(i);
    }
    if (!found)
      return emitOpError() << "is that of no " << what << " of @main", failure();
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
      [&](unsigned i) { return main.getResultTypes()[i]; });
  if (failed(after))
    return failure();
  SymExpr had = getSizes(*before)[tokenDim], has = getSizes(*after)[tokenDim];
  if ((has - had).lowerBound().value_or(-1) < 0)
    return emitOpError() << "holds " << has.str() << " tokens after a step and " << had.str()
                         << " before: none may be lost";
  return success();
}
