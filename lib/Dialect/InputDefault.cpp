//===- InputDefault.cpp - Default values of omitted inputs ----------------===//

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::tpc;

InputDefaultAttr InputDefaultAttr::lookup(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<InputDefaultAttr>(kDefaultAttr) : InputDefaultAttr();
}

Attribute InputDefaultAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<InputDefaultKind> kind = symbolizeInputDefaultKind(keyword);
  if (!kind)
    return parser.emitError(loc, "expected 'ones' or 'positions'"), Attribute();
  InputDefaultAttr result = get(context, *kind);
  if (*kind == InputDefaultKind::Positions && succeeded(parser.parseOptionalKeyword("after"))) {
    SymExprAttr past;
    if (parseSymExpr(parser, past))
      return {};
    result = get(context, past.getExpr());
  } else if (*kind == InputDefaultKind::Positions && succeeded(parser.parseOptionalKeyword("of"))) {
    std::string mask;
    loc = parser.getCurrentLocation();
    if (parser.parseString(&mask))
      return {};
    if (mask.empty())
      return parser.emitError(loc, "expected the name of a mask"), Attribute();
    result = get(context, StringAttr::get(context, mask));
  }
  return parser.parseGreater() ? Attribute() : result;
}

void InputDefaultAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyInputDefaultKind(getKind());
  if (getPast()) {
    printer << " after ";
    printSymExpr(printer, getPast());
  }
  if (getMask())
    printer << " of " << getMask();
  printer << ">";
}
