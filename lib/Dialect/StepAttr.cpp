//===- StepAttr.cpp - Text and checks of #tpc.step ------------------------===//
//
//   #tpc.step<past = p, tokens = s>
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/State.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tpc;

LogicalResult StepAttr::verify(function_ref<InFlightDiagnostic()> emitError, SymExprAttr tokens,
                               SymExprAttr past, SymExprAttr capacity, StringAttr lengths,
                               StringAttr counts, bool last, int64_t window,
                               SymExprAttr windowCapacity, StringAttr windowLengths) {
  llvm::StringSet<> symbols, names;
  auto checkSymbol = [&](StringRef field, SymExprAttr size) -> LogicalResult {
    if (!size)
      return success();
    std::optional<std::string> symbol = getSymbolName(size.getExpr());
    if (!symbol)
      return emitError() << "'" << field << "' must be a symbol, not " << size.getExpr().str();
    if (!symbols.insert(*symbol).second)
      return emitError() << "'" << field << "' is the symbol " << *symbol
                         << ", which another field has";
    return success();
  };
  auto checkName = [&](StringRef field, StringAttr name) -> LogicalResult {
    if (!name)
      return success();
    if (name.empty() || !names.insert(name).second)
      return emitError() << "'" << field << "' is the input " << name
                         << (name.empty() ? ", which has no name" : ", which another field has");
    return success();
  };
  if (!tokens || bool(past) == bool(capacity))
    return emitError() << "must have 'tokens' and either 'past' or 'capacity'";
  bool preallocated = bool(capacity);
  if (preallocated != bool(lengths) || preallocated != bool(counts))
    return emitError() << "must have 'lengths' and 'counts' with 'capacity', and only then";
  if (!preallocated && (last || window))
    return emitError() << "must have 'capacity' with 'last' or 'window'";
  if (window < 0 || bool(window) != bool(windowCapacity) || bool(window) != bool(windowLengths))
    return emitError()
           << "must have a 'window' of at least 1, 'window_capacity' and 'window_lengths' together";
  return failure(failed(checkSymbol("tokens", tokens)) || failed(checkSymbol("past", past)) ||
                 failed(checkSymbol("capacity", capacity)) ||
                 failed(checkSymbol("window_capacity", windowCapacity)) ||
                 failed(checkName("lengths", lengths)) || failed(checkName("counts", counts)) ||
                 failed(checkName("window_lengths", windowLengths)));
}

Attribute StepAttr::parse(AsmParser &parser, Type) {
  SMLoc begin = parser.getCurrentLocation();
  SymExprAttr tokens, past, capacity, windowCapacity;
  StringAttr lengths, counts, windowLengths;
  bool last = false;
  int64_t window = 0;
  llvm::StringSet<> seen;
  auto parseText = [&](StringAttr &text) -> ParseResult {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    text = StringAttr::get(parser.getContext(), name);
    return success();
  };
  auto parseField = [&]() -> ParseResult {
    StringRef field;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&field))
      return failure();
    if (field == "room") // in text of older versions
      field = "window_capacity";
    if (!seen.insert(field).second)
      return parser.emitError(loc) << "'" << field << "' is given twice";
    if (field == "last") {
      last = true;
      return success();
    }
    if (parser.parseEqual())
      return failure();
    if (field == "window")
      return parser.parseInteger(window);
    SymExprAttr *symbol = llvm::StringSwitch<SymExprAttr *>(field)
                              .Case("tokens", &tokens)
                              .Case("past", &past)
                              .Case("capacity", &capacity)
                              .Case("window_capacity", &windowCapacity)
                              .Default(nullptr);
    if (symbol)
      return parseSymExpr(parser, *symbol);
    StringAttr *name = llvm::StringSwitch<StringAttr *>(field)
                           .Case("lengths", &lengths)
                           .Case("counts", &counts)
                           .Case("window_lengths", &windowLengths)
                           .Default(nullptr);
    if (name)
      return parseText(*name);
    return parser.emitError(loc) << "a step has no field '" << field << "'";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  auto emitError = [&] {
    InFlightDiagnostic error = parser.emitError(begin);
    error << "#tpc.step ";
    return error;
  };
  return getChecked(emitError, parser.getContext(), tokens, past, capacity, lengths, counts, last,
                    window, windowCapacity, windowLengths);
}

void StepAttr::print(AsmPrinter &printer) const {
  StringRef separator = "<";
  auto begin = [&](StringRef field) -> AsmPrinter & {
    printer << std::exchange(separator, ", ") << field;
    return printer;
  };
  auto printSymbol = [&](StringRef field, SymExprAttr symbol) {
    if (symbol) {
      begin(field) << " = ";
      printSymExpr(printer, symbol);
    }
  };
  auto printName = [&](StringRef field, StringAttr name) {
    if (name)
      begin(field) << " = " << name;
  };
  printSymbol("past", getPast());
  printSymbol("tokens", getTokens());
  printSymbol("capacity", getCapacity());
  printName("lengths", getLengths());
  printName("counts", getCounts());
  if (getLast())
    begin("last");
  if (getWindow())
    begin("window") << " = " << getWindow();
  printSymbol("window_capacity", getWindowCapacity());
  printName("window_lengths", getWindowLengths());
  printer << ">";
}
