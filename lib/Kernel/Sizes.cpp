//===- Sizes.cpp - Sizes in the text of kernels ---------------------------===//

#include "Sizes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

Attribute kernel::makeSize(MLIRContext *context, const SymExpr &size) {
  return DimAttr::get(context, size);
}

ArrayAttr kernel::makeSizes(MLIRContext *context, ArrayRef<SymExpr> sizes) {
  return ArrayAttr::get(context, llvm::map_to_vector(sizes, [&](const SymExpr &size) {
                          return makeSize(context, size);
                        }));
}

bool kernel::isSize(Attribute attr) {
  auto dim = dyn_cast_if_present<DimAttr>(attr);
  return dim && !dim.isSharded();
}

SymExpr kernel::getExpr(Attribute size) { return cast<DimAttr>(size).getExpr(); }

SmallVector<SymExpr> kernel::getExprs(ArrayAttr sizes) {
  return llvm::map_to_vector(sizes, [](Attribute size) { return getExpr(size); });
}

ParseResult kernel::parseSize(AsmParser &parser, Attribute &size) {
  int64_t value;
  OptionalParseResult integer = parser.parseOptionalInteger(value);
  if (integer.has_value()) {
    size = makeSize(parser.getContext(), value);
    return *integer;
  }
  SMLoc loc = parser.getCurrentLocation();
  std::string text, message;
  if (parser.parseKeywordOrString(&text))
    return failure();
  std::optional<SymExpr> expr = SymExpr::parse(text, &message);
  if (!expr)
    return parser.emitError(loc) << "not a size: " << message;
  size = makeSize(parser.getContext(), *expr);
  return success();
}

void kernel::printSize(AsmPrinter &printer, Attribute size) {
  SymExpr expr = getExpr(size);
  std::string text = expr.str();
  bool word = llvm::all_of(text, [](char c) { return isalnum((unsigned char)c) || c == '_'; });
  if (expr.isConstant() || word)
    printer << text;
  else
    printer << '"' << text << '"';
}

ParseResult kernel::parseSizes(AsmParser &parser, ArrayAttr &sizes) {
  SmallVector<Attribute> found;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parseSize(parser, found.emplace_back()); }))
    return failure();
  sizes = ArrayAttr::get(parser.getContext(), found);
  return success();
}

void kernel::printSizes(AsmPrinter &printer, ArrayAttr sizes) {
  printer << '[';
  llvm::interleaveComma(sizes, printer, [&](Attribute size) { printSize(printer, size); });
  printer << ']';
}
