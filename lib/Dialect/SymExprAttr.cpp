//===- SymExprAttr.cpp - #tpc.expr<"past + sequence"> ---------------------===//

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

ParseResult mlir::tpc::parseSymExpr(AsmParser &parser, SymExprAttr &attr) {
  SMLoc loc = parser.getCurrentLocation();
  std::string text, message;
  if (parser.parseString(&text))
    return failure();
  std::optional<SymExpr> value = SymExpr::parse(text, &message);
  if (!value)
    return parser.emitError(loc, message);
  attr = SymExprAttr::get(parser.getContext(), *value);
  return success();
}

void mlir::tpc::printSymExpr(AsmPrinter &printer, SymExprAttr attr) {
  printer << '"' << attr.getValue().str() << '"';
}

Attribute SymExprAttr::parse(AsmParser &parser, Type) {
  SymExprAttr attr;
  if (parser.parseLess() || parseSymExpr(parser, attr) || parser.parseGreater())
    return {};
  return attr;
}

void SymExprAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSymExpr(printer, *this);
  printer << ">";
}
