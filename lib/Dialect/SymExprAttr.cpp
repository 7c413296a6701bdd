//===- SymExprAttr.cpp - Text of #tpc.expr --------------------------------===//
//
//   #tpc.expr<"past + sequence">
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

#include <climits>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

ArrayAttr SymExprAttr::getArray(MLIRContext *context, ArrayRef<SymExpr> exprs) {
  return ArrayAttr::get(context, llvm::map_to_vector(exprs, [&](const SymExpr &expr) -> Attribute {
                          return get(context, expr);
                        }));
}

SmallVector<SymExpr> SymExprAttr::getExprs(ArrayAttr array) {
  return llvm::map_to_vector(array.getAsRange<SymExprAttr>(),
                             [](SymExprAttr attr) { return attr.getExpr(); });
}

//===----------------------------------------------------------------------===//
// Text of sizes
//===----------------------------------------------------------------------===//

/// Maximum length of a string; longer expressions are printed as several strings.
static constexpr size_t kLongest = 96;

ParseResult mlir::tpc::parseSymExpr(AsmParser &parser, SymExprAttr &attr) {
  SMLoc loc = parser.getCurrentLocation();
  MLIRContext *context = parser.getContext();
  int64_t number;
  OptionalParseResult isNumber = parser.parseOptionalInteger(number);
  if (isNumber.has_value()) {
    attr = SymExprAttr::get(context, number);
    return *isNumber;
  }
  std::string text, message;
  if (succeeded(parser.parseOptionalString(&text))) {
    for (std::string next; succeeded(parser.parseOptionalString(&next));)
      text += next;
  } else if (parser.parseKeywordOrString(&text)) {
    return failure();
  }
  std::optional<SymExpr> expr = SymExpr::parse(text, &message);
  if (!expr)
    return parser.emitError(loc) << "not a size: " << message;
  attr = SymExprAttr::get(context, *expr);
  return success();
}

/// Returns the length of the first string: the text up to a space with the fewest enclosing
/// parentheses.
static size_t getFirstPiece(StringRef text) {
  if (text.size() <= kLongest)
    return text.size();
  size_t end = text.size();
  int depth = 0, minDepth = INT_MAX;
  for (auto [i, c] : llvm::enumerate(text)) {
    if (i >= kLongest && end != text.size())
      break;
    depth += (c == '(') - (c == ')');
    if (c == ' ' && depth <= minDepth) {
      minDepth = depth;
      end = i + 1;
    }
  }
  return end;
}

void mlir::tpc::printSymExpr(AsmPrinter &printer, SymExprAttr attr) {
  const SymExpr &expr = attr.getExpr();
  std::string text = expr.str();
  auto isOfWord = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; };
  if (!expr.isOverflow() && (expr.isConstant() || llvm::all_of(text, isOfWord))) {
    printer << text;
    return;
  }
  // Lines can be broken between strings.
  const char *space = "";
  for (StringRef rest = text; !rest.empty(); space = " ") {
    StringRef first = rest.take_front(getFirstPiece(rest));
    printer << space << '"' << first << '"';
    rest = rest.drop_front(first.size());
  }
}

ParseResult mlir::tpc::parseSymExprs(AsmParser &parser, ArrayAttr &list) {
  SmallVector<Attribute> found;
  auto parseOne = [&]() -> ParseResult {
    SymExprAttr attr;
    if (parseSymExpr(parser, attr))
      return failure();
    found.push_back(attr);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  list = ArrayAttr::get(parser.getContext(), found);
  return success();
}

void mlir::tpc::printSymExprs(AsmPrinter &printer, ArrayAttr list) {
  printer << '[';
  llvm::interleaveComma(list.getAsRange<SymExprAttr>(), printer,
                        [&](SymExprAttr attr) { printSymExpr(printer, attr); });
  printer << ']';
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
