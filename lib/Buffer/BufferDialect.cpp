//===- BufferDialect.cpp - Extents, arguments and assembly formats --------===//

#include "tpc/Buffer/Accumulate.h"
#include "tpc/Buffer/Async.h"
#include "tpc/Buffer/Training.h"
#include "tpc/Dialect/Elements.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::buffer;
using ::tpc::SymExpr;

#include "tpc/Buffer/BufferDialect.cpp.inc"
#include "tpc/Buffer/BufferEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tpc/Buffer/BufferAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "tpc/Buffer/BufferTypes.cpp.inc"

void BufferDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tpc/Buffer/BufferAttrs.cpp.inc"
      >();
}

void BufferDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tpc/Buffer/BufferTypes.cpp.inc"
      >();
}

void BufferDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "tpc/Buffer/BufferOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Buffer/BufferAsyncOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Buffer/BufferAccumulateOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Buffer/BufferTrainingOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ExtentAttr
//===----------------------------------------------------------------------===//

SymExpr ExtentAttr::getBytes() const {
  return SymExpr(getElementBytes(getElement())) * getElements().getExpr();
}

static ParseResult parse(AsmParser &parser, ExtentAttr &attr) {
  SymExprAttr elements;
  Type element;
  SMLoc loc = parser.getCurrentLocation();
  if (parseSymExpr(parser, elements) || parser.parseKeyword("x") || parser.parseType(element))
    return failure();
  if (!element.isIntOrFloat())
    return parser.emitError(loc) << "the elements of a buffer must be numbers, but are " << element;
  attr = ExtentAttr::get(parser.getContext(), elements, element);
  return success();
}

static void print(AsmPrinter &printer, ExtentAttr attr) {
  printSymExpr(printer, attr.getElements());
  printer << " x " << attr.getElement();
}

Attribute ExtentAttr::parse(AsmParser &parser, Type) {
  ExtentAttr attr;
  if (parser.parseLess() || ::parse(parser, attr) || parser.parseGreater())
    return {};
  return attr;
}

void ExtentAttr::print(AsmPrinter &printer) const {
  printer << "<";
  ::print(printer, *this);
  printer << ">";
}

ExtentAttr buffer::getExtent(Value buffer) {
  if (Operation *op = buffer.getDefiningOp())
    return op->getAttrOfType<ExtentAttr>("extent");
  auto argument = cast<BlockArgument>(buffer);
  auto function = dyn_cast<FuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return {};
  unsigned index = argument.getArgNumber(), inputs = function.getArgs().size();
  if (index < inputs)
    return cast<ArgumentAttr>(function.getArgs()[index]).getExtent();
  return cast<ExtentAttr>(function.getResultExtents()[index - inputs]);
}

//===----------------------------------------------------------------------===//
// LoadAttr and ArgumentAttr
//===----------------------------------------------------------------------===//

static ParseResult parseUse(AsmParser &parser, ParameterUse &use) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto found = symbolizeParameterUse(word);
  if (!found)
    return parser.emitError(loc, "expected 'packed' or 'dense'");
  use = *found;
  return success();
}

/// Parses a load after its use: `@w view #tpc.view<…> : tensor<…>`.
static ParseResult parseLoad(AsmParser &parser, ParameterUse use, LoadAttr &load) {
  StringAttr weight;
  ViewAttr view;
  Type type;
  if (parser.parseSymbolName(weight) ||
      (succeeded(parser.parseOptionalKeyword("view")) &&
       parser.parseCustomAttributeWithFallback(view)) ||
      parser.parseColonType(type))
    return failure();
  load = LoadAttr::get(parser.getContext(), use, weight, view, type);
  return success();
}

static void printLoad(AsmPrinter &printer, LoadAttr load) {
  printer << stringifyParameterUse(load.getUse()) << " ";
  printer.printSymbolName(load.getWeight());
  if (load.getView()) {
    printer << " view ";
    printer.printStrippedAttrOrType(load.getView());
  }
  printer << " : " << load.getType();
}

Attribute LoadAttr::parse(AsmParser &parser, Type) {
  ParameterUse use;
  LoadAttr load;
  if (parser.parseLess() || parseUse(parser, use) || parseLoad(parser, use, load) ||
      parser.parseGreater())
    return {};
  return load;
}

void LoadAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printLoad(printer, *this);
  printer << ">";
}

static IntegerAttr makeIndex(MLIRContext *context, int64_t index) {
  return IntegerAttr::get(IntegerType::get(context, 64), index);
}

ArgumentAttr ArgumentAttr::getBuffer(MLIRContext *context, int64_t argument, ExtentAttr extent,
                                     std::optional<int64_t> result) {
  return get(context, makeIndex(context, argument), extent, ParameterUse::Dense, {},
             result ? makeIndex(context, *result) : IntegerAttr());
}

ArgumentAttr ArgumentAttr::getParameter(MLIRContext *context, int64_t argument, ParameterUse use) {
  return get(context, makeIndex(context, argument), {}, use, {}, {});
}

ArgumentAttr ArgumentAttr::getImplicitParameter(LoadAttr load) {
  return get(load.getContext(), {}, {}, load.getUse(), load, {});
}

static ParseResult parse(AsmParser &parser, ArgumentAttr &attr) {
  MLIRContext *context = parser.getContext();
  int64_t index = 0;
  if (succeeded(parser.parseOptionalKeyword("value"))) {
    ExtentAttr extent;
    std::optional<int64_t> result;
    if (parser.parseInteger(index))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("becomes")) && parser.parseInteger(result.emplace()))
      return failure();
    if (parser.parseColon() || ::parse(parser, extent))
      return failure();
    attr = ArgumentAttr::getBuffer(context, index, extent, result);
    return success();
  }
  ParameterUse use;
  if (parseUse(parser, use))
    return failure();
  OptionalParseResult isArgument = parser.parseOptionalInteger(index);
  if (isArgument.has_value()) {
    if (failed(*isArgument))
      return failure();
    attr = ArgumentAttr::getParameter(context, index, use);
    return success();
  }
  LoadAttr load;
  if (parseLoad(parser, use, load))
    return failure();
  attr = ArgumentAttr::getImplicitParameter(load);
  return success();
}

static void print(AsmPrinter &printer, ArgumentAttr attr) {
  if (attr.getLoad())
    return printLoad(printer, attr.getLoad());
  if (!attr.isBuffer()) {
    printer << stringifyParameterUse(attr.getUse()) << " " << attr.getArgument().getInt();
    return;
  }
  printer << "value " << attr.getArgument().getInt();
  if (attr.getResult())
    printer << " becomes " << attr.getResult().getInt();
  printer << " : ";
  ::print(printer, attr.getExtent());
}

Attribute ArgumentAttr::parse(AsmParser &parser, Type) {
  ArgumentAttr attr;
  if (parser.parseLess() || ::parse(parser, attr) || parser.parseGreater())
    return {};
  return attr;
}

void ArgumentAttr::print(AsmPrinter &printer) const {
  printer << "<";
  ::print(printer, *this);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Directives of declarative assembly formats
//===----------------------------------------------------------------------===//

static ParseResult parseExtent(OpAsmParser &parser, ExtentAttr &attr) {
  return parse(parser, attr);
}
static void printExtent(OpAsmPrinter &printer, Operation *, ExtentAttr attr) {
  print(printer, attr);
}

static ParseResult parseLoad(OpAsmParser &parser, LoadAttr &attr) {
  ParameterUse use;
  return failure(parseUse(parser, use) || ::parseLoad(parser, use, attr));
}
static void printLoad(OpAsmPrinter &printer, Operation *, LoadAttr attr) {
  ::printLoad(printer, attr);
}

using UnresolvedOperands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

/// Parses matmuls: `by %w bias %b epilogue silu residual %r to %0 n _6.tp, by ...`
static ParseResult parseProducts(OpAsmParser &parser, UnresolvedOperands &parameters,
                                 UnresolvedOperands &biases, UnresolvedOperands &residuals,
                                 UnresolvedOperands &to, ArrayAttr &widths,
                                 DenseI32ArrayAttr &epilogues, DenseBoolArrayAttr &withBias,
                                 DenseBoolArrayAttr &withResidual) {
  SmallVector<Attribute> sizes;
  SmallVector<int32_t> epilogueNumbers;
  SmallVector<bool> flags[2];
  auto parseOptional = [&](StringRef keyword, UnresolvedOperands &list, SmallVector<bool> &flags) {
    flags.push_back(succeeded(parser.parseOptionalKeyword(keyword)));
    return flags.back() ? parser.parseOperand(list.emplace_back()) : ParseResult(success());
  };
  auto parseEpilogue = [&]() -> ParseResult {
    StringRef word = "none";
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword("epilogue"))) {
      loc = parser.getCurrentLocation();
      if (parser.parseKeyword(&word))
        return failure();
    }
    auto epilogue = symbolizeEpilogue(word);
    if (!epilogue)
      return parser.emitError(loc) << "'" << word << "' is not an epilogue";
    epilogueNumbers.push_back(static_cast<int32_t>(*epilogue));
    return success();
  };
  do {
    SymExprAttr n;
    if (parser.parseKeyword("by") || parser.parseOperand(parameters.emplace_back()) ||
        parseOptional("bias", biases, flags[0]) || parseEpilogue() ||
        parseOptional("residual", residuals, flags[1]) || parser.parseKeyword("to") ||
        parser.parseOperand(to.emplace_back()) || parser.parseKeyword("n") ||
        parseSymExpr(parser, n))
      return failure();
    sizes.push_back(n);
  } while (succeeded(parser.parseOptionalComma()));
  Builder &b = parser.getBuilder();
  widths = b.getArrayAttr(sizes);
  epilogues = b.getDenseI32ArrayAttr(epilogueNumbers);
  withBias = b.getDenseBoolArrayAttr(flags[0]);
  withResidual = b.getDenseBoolArrayAttr(flags[1]);
  return success();
}

static void printProducts(OpAsmPrinter &printer, ProductOp op, OperandRange, OperandRange,
                          OperandRange, OperandRange, ArrayAttr, DenseI32ArrayAttr,
                          DenseBoolArrayAttr, DenseBoolArrayAttr) {
  llvm::interleave(
      op.getMatmuls(),
      [&](const ProductOp::Matmul &matmul) {
        printer << "by " << matmul.parameter;
        if (matmul.bias)
          printer << " bias " << matmul.bias;
        if (matmul.epilogue != Epilogue::None)
          printer << " epilogue " << stringifyEpilogue(matmul.epilogue);
        if (matmul.residual)
          printer << " residual " << matmul.residual;
        printer << " to " << matmul.to << " n ";
        printSymExpr(printer, matmul.n);
      },
      [&] {
        printer << ",";
        printer.printNewline();
        printer << "  ";
      });
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  StringAttr name;
  FlatSymbolRefAttr of;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      parser.parseKeyword("of") || parser.parseAttribute(of, "of", result.attributes))
    return failure();
  int64_t stage;
  if (succeeded(parser.parseOptionalKeyword("stage"))) {
    if (parser.parseInteger(stage))
      return failure();
    result.addAttribute("stage", b.getI64IntegerAttr(stage));
  }
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> inputs, extents;
  auto parseName = [&](Type type) -> ParseResult {
    auto &argument = arguments.emplace_back();
    if (parser.parseArgument(argument))
      return failure();
    argument.type = type;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen, [&]() -> ParseResult {
        ArgumentAttr attr;
        if (parseName({}) || parser.parseEqual() || ::parse(parser, attr))
          return failure();
        inputs.push_back(attr);
        arguments.back().type = attr.isBuffer() ? Type(BufferType::get(b.getContext()))
                                                : ParameterType::get(b.getContext());
        return success();
      }))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("to")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        ExtentAttr extent;
        if (parseName(BufferType::get(b.getContext())) || parser.parseColon() ||
            ::parse(parser, extent))
          return failure();
        extents.push_back(extent);
        return success();
      }))
    return failure();
  result.addAttribute("args", b.getArrayAttr(inputs));
  result.addAttribute("result_extents", b.getArrayAttr(extents));
  Region *body = result.addRegion();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void FuncOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << " of " << getOfAttr();
  if (getStage())
    printer << " stage " << *getStage();
  if (!getArgs().empty()) {
    printer << "(";
    llvm::interleaveComma(llvm::zip(getArgs().getAsRange<ArgumentAttr>(), getBody().getArguments()),
                          printer, [&](auto pair) {
                            printer << std::get<1>(pair) << " = ";
                            ::print(printer, std::get<0>(pair));
                          });
    printer << ")";
  }
  if (!getResultExtents().empty()) {
    printer << " to (";
    llvm::interleaveComma(
        llvm::zip(getResultExtents().getAsRange<ExtentAttr>(), getResultBuffers()), printer,
        [&](auto pair) {
          printer << std::get<1>(pair) << " : ";
          ::print(printer, std::get<0>(pair));
        });
    printer << ")";
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"sym_name", "of", "stage", "args", "result_extents"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult CallOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  FlatSymbolRefAttr callee;
  SmallVector<OpAsmParser::UnresolvedOperand> buffers, parameters, writes, all;
  SmallVector<bool> isParameter;
  if (parser.parseAttribute(callee, "callee", result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                     [&]() -> ParseResult {
                                       // The keyword marks operands that are parameters.
                                       isParameter.push_back(
                                           succeeded(parser.parseOptionalKeyword("parameter")));
                                       return parser.parseOperand(all.emplace_back());
                                     }) ||
      parser.parseKeyword("to") || parser.parseOperandList(writes, AsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  auto bufferType = BufferType::get(b.getContext());
  for (auto [operand, parameter] : llvm::zip(all, isParameter))
    if (parser.resolveOperand(operand,
                              parameter ? Type(ParameterType::get(b.getContext())) : bufferType,
                              result.operands))
      return failure();
  if (parser.resolveOperands(writes, bufferType, result.operands))
    return failure();
  result.addAttribute("operandSegmentSizes",
                      b.getDenseI32ArrayAttr({(int32_t)all.size(), (int32_t)writes.size()}));
  return success();
}

void CallOp::print(OpAsmPrinter &printer) {
  printer << " " << getCalleeAttr() << "(";
  llvm::interleaveComma(getArgs(), printer, [&](Value value) {
    printer << (isa<ParameterType>(value.getType()) ? "parameter " : "") << value;
  });
  printer << ") to (" << getWrites() << ")";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"callee", "operandSegmentSizes"});
}

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferOps.cpp.inc"
#define GET_OP_CLASSES
#include "tpc/Buffer/BufferAsyncOps.cpp.inc"
#define GET_OP_CLASSES
#include "tpc/Buffer/BufferAccumulateOps.cpp.inc"
#define GET_OP_CLASSES
#include "tpc/Buffer/BufferTrainingOps.cpp.inc"
