//===- SourceCaches.cpp - Caches of cross-attention -----------------------===//

#include "tpc/Dialect/SourceCaches.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tpc;

bool SourceCaches::isValid(Attribute value) {
  auto fields = dyn_cast_or_null<DictionaryAttr>(value);
  return fields && fields.size() == 3 &&
         llvm::all_of(ArrayRef<StringRef>{"tokens", "capacity", "lengths"}, [&](StringRef name) {
           auto text = fields.getAs<StringAttr>(name);
           return text && !text.empty();
         });
}

std::optional<SourceCaches> SourceCaches::lookup(ModuleOp module) {
  auto fields = module->getAttrOfType<DictionaryAttr>(kSourceCachesAttr);
  if (!fields || !isValid(fields))
    return std::nullopt;
  auto get = [&](StringRef name) { return fields.getAs<StringAttr>(name).str(); };
  return SourceCaches{get("tokens"), get("capacity"), get("lengths")};
}

void SourceCaches::attachTo(ModuleOp module) const {
  Builder builder(module.getContext());
  module->setAttr(
      kSourceCachesAttr,
      builder.getDictionaryAttr({builder.getNamedAttr("tokens", builder.getStringAttr(tokens)),
                                 builder.getNamedAttr("capacity", builder.getStringAttr(capacity)),
                                 builder.getNamedAttr("lengths", builder.getStringAttr(lengths))}));
}
