//===- SourceCaches.cpp - Caches of cross-attention -----------------------===//

#include "tpc/Dialect/SourceCaches.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tpc;

bool SourceCaches::isValid(Attribute value) {
  auto fields = dyn_cast_or_null<DictionaryAttr>(value);
  bool fixed = fields && fields.contains("each");
  auto each = fixed ? fields.getAs<IntegerAttr>("each") : IntegerAttr();
  return fields && fields.size() == (fixed ? 4 : 3) && (!fixed || (each && each.getInt() > 0)) &&
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
  SourceCaches source{get("tokens"), get("capacity"), get("lengths")};
  if (auto each = fields.getAs<IntegerAttr>("each"))
    source.each = each.getInt();
  return source;
}

void SourceCaches::attachTo(ModuleOp module) const {
  Builder builder(module.getContext());
  NamedAttrList fields;
  for (auto [name, text] :
       {std::pair("tokens", &tokens), {"capacity", &capacity}, {"lengths", &lengths}})
    fields.set(name, builder.getStringAttr(*text));
  if (each)
    fields.set("each", builder.getI64IntegerAttr(*each));
  module->setAttr(kSourceCachesAttr, fields.getDictionary(module.getContext()));
}
