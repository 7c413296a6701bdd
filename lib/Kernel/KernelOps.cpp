//===- KernelOps.cpp - Ops of the tpc_kernel dialect ----------------------===//

#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tpc::kernel;
using mlir::tpc::parseSymExprs;
using mlir::tpc::printSymExprs;
using mlir::tpc::SymExprAttr;
using ::tpc::SymExpr;

#include "tpc/Kernel/KernelDialect.cpp.inc"
#include "tpc/Kernel/KernelEnums.cpp.inc"

#define GET_OP_CLASSES
#include "tpc/Kernel/KernelOps.cpp.inc"

void TpcKernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tpc/Kernel/KernelOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Loops: (%i, %j) in [batch, 64]
//===----------------------------------------------------------------------===//

/// `indices` receives the arguments of the region.
static ParseResult parseSpace(OpAsmParser &parser, OperationState &state,
                              SmallVectorImpl<OpAsmParser::Argument> &indices) {
  ArrayAttr sizes;
  if (parser.parseArgumentList(indices, OpAsmParser::Delimiter::Paren) ||
      parser.parseKeyword("in") || parseSymExprs(parser, sizes))
    return failure();
  for (OpAsmParser::Argument &index : indices)
    index.type = parser.getBuilder().getIndexType();
  state.addAttribute("sizes", sizes);
  return success();
}

static void printSpace(OpAsmPrinter &printer, Block &body, ArrayAttr sizes) {
  printer << " (";
  llvm::interleaveComma(body.getArguments(), printer, [&](Value index) { printer << index; });
  printer << ") in ";
  printSymExprs(printer, sizes);
}

static ParseResult parseBody(OpAsmParser &parser, OperationState &state,
                             ArrayRef<OpAsmParser::Argument> indices) {
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, indices))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

static ParseResult parseLoop(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> indices;
  return failure(parseSpace(parser, state, indices) || parseBody(parser, state, indices));
}

static void printLoop(OpAsmPrinter &printer, Operation *op, ArrayAttr sizes) {
  Region &body = op->getRegion(0);
  printSpace(printer, body.front(), sizes);
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), {"sizes"});
  printer << ' ';
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

static LogicalResult verifySpace(Operation *op, ArrayAttr sizes) {
  Block &body = op->getRegion(0).front();
  if (body.getNumArguments() != sizes.size())
    return op->emitOpError() << "must have one index for each size, but has "
                             << body.getNumArguments() << " indices and " << sizes.size()
                             << " sizes";
  for (Type type : body.getArgumentTypes())
    if (!type.isIndex())
      return op->emitOpError() << "must have indices of type index, but has " << type;
  return success();
}

static void buildSpace(OpBuilder &b, OperationState &state, ArrayRef<SymExpr> sizes) {
  state.addAttribute("sizes", SymExprAttr::getArray(b.getContext(), sizes));
  Block &body = state.addRegion()->emplaceBlock();
  for (size_t i = 0; i < sizes.size(); ++i)
    body.addArgument(b.getIndexType(), state.location);
}

ParseResult RowsOp::parse(OpAsmParser &parser, OperationState &state) {
  return parseLoop(parser, state);
}
void RowsOp::print(OpAsmPrinter &printer) { printLoop(printer, *this, getSizes()); }
LogicalResult RowsOp::verify() { return verifySpace(*this, getSizes()); }
void RowsOp::build(OpBuilder &b, OperationState &state, ArrayRef<SymExpr> sizes) {
  buildSpace(b, state, sizes);
}

ParseResult ElementsOp::parse(OpAsmParser &parser, OperationState &state) {
  return parseLoop(parser, state);
}
void ElementsOp::print(OpAsmPrinter &printer) { printLoop(printer, *this, getSizes()); }
LogicalResult ElementsOp::verify() { return verifySpace(*this, getSizes()); }
void ElementsOp::build(OpBuilder &b, OperationState &state, ArrayRef<SymExpr> sizes) {
  buildSpace(b, state, sizes);
}

//===----------------------------------------------------------------------===//
// FoldOp
//===----------------------------------------------------------------------===//

TypedAttr FoldOp::getIdentity(FoldKind kind, Type type) {
  if (auto f = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = f.getFloatSemantics();
    switch (kind) {
    case FoldKind::Sum:
      return FloatAttr::get(f, APFloat::getZero(semantics, /*Negative=*/true));
    case FoldKind::Max:
    case FoldKind::MaxNum:
      return FloatAttr::get(f, APFloat::getInf(semantics, /*Negative=*/true));
    case FoldKind::Min:
      return FloatAttr::get(f, APFloat::getInf(semantics));
    default:
      return {};
    }
  }
  if (!type.isSignlessInteger())
    return {};
  unsigned width = type.getIntOrFloatBitWidth();
  switch (kind) {
  case FoldKind::Sum:
    return IntegerAttr::get(type, 0);
  case FoldKind::Max:
    return IntegerAttr::get(type, APInt::getSignedMinValue(width));
  case FoldKind::Min:
    return IntegerAttr::get(type, APInt::getSignedMaxValue(width));
  case FoldKind::UMax:
    return IntegerAttr::get(type, APInt::getMinValue(width));
  case FoldKind::UMin:
    return IntegerAttr::get(type, APInt::getMaxValue(width));
  default:
    return {};
  }
}

TypedAttr FoldOp::getInit(FoldKind kind, Type type) {
  if (kind == FoldKind::Sum && isa<FloatType>(type))
    return FloatAttr::get(type, 0);
  return getIdentity(kind, type);
}

Value FoldOp::combine(OpBuilder &b, Location loc, FoldKind kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  switch (kind) {
  case FoldKind::Sum:
    if (isFloat)
      return arith::AddFOp::create(b, loc, x, y);
    return arith::AddIOp::create(b, loc, x, y);
  case FoldKind::Max:
    if (isFloat)
      return arith::MaximumFOp::create(b, loc, x, y);
    return arith::MaxSIOp::create(b, loc, x, y);
  case FoldKind::Min:
    if (isFloat)
      return arith::MinimumFOp::create(b, loc, x, y);
    return arith::MinSIOp::create(b, loc, x, y);
  case FoldKind::UMax:
    return arith::MaxUIOp::create(b, loc, x, y);
  case FoldKind::UMin:
    return arith::MinUIOp::create(b, loc, x, y);
  case FoldKind::MaxNum: // one instruction; x is never NaN, as its initial value is -inf
    return arith::SelectOp::create(
        b, loc, arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, y, x), y, x);
  }
  llvm_unreachable("all kinds are above");
}

void FoldOp::build(OpBuilder &b, OperationState &state, FoldKind kind, ArrayRef<SymExpr> sizes,
                   bool adjacent, Type type) {
  state.addAttribute("kind", FoldKindAttr::get(b.getContext(), kind));
  if (adjacent)
    state.addAttribute("adjacent", b.getUnitAttr());
  state.addAttribute("init", getInit(kind, type));
  state.addAttribute("identity", getIdentity(kind, type));
  state.addTypes(type);
  buildSpace(b, state, sizes);
}

ParseResult FoldOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> indices;
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<FoldKind> kind = symbolizeFoldKind(word);
  if (!kind)
    return parser.emitError(loc) << "'" << word
                                 << "' is not a kind of fold: sum, max, min, umax, umin or maxnum";
  state.addAttribute("kind", FoldKindAttr::get(parser.getContext(), *kind));
  if (parseSpace(parser, state, indices))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("adjacent")))
    state.addAttribute("adjacent", parser.getBuilder().getUnitAttr());
  Type type;
  TypedAttr init, identity;
  if (parser.parseColonType(type) || parser.parseKeyword("init") ||
      parser.parseAttribute(init, type, "init", state.attributes) ||
      parser.parseKeyword("identity") ||
      parser.parseAttribute(identity, type, "identity", state.attributes))
    return failure();
  state.addTypes(type);
  return parseBody(parser, state, indices);
}

void FoldOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyFoldKind(getKind());
  printSpace(printer, getBody().front(), getSizes());
  if (getAdjacent())
    printer << " adjacent";
  printer << " : " << getType() << " init ";
  printer.printAttributeWithoutType(getInit());
  printer << " identity ";
  printer.printAttributeWithoutType(getIdentity());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"kind", "sizes", "adjacent", "init", "identity"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult FoldOp::verify() {
  if (failed(verifySpace(*this, getSizes())))
    return failure();
  Type type = getType();
  TypedAttr identity = getIdentity(getKind(), type);
  if (!identity)
    return emitOpError() << "'" << stringifyFoldKind(getKind()) << "' does not support " << type;
  if (getIdentity() != identity)
    return emitOpError() << "has the identity " << getIdentity() << "; that of '"
                         << stringifyFoldKind(getKind()) << "' is " << identity;
  if (getInit() != getInit(getKind(), type))
    return emitOpError() << "has the initial value " << getInit() << "; that of '"
                         << stringifyFoldKind(getKind()) << "' is " << getInit(getKind(), type);
  Block &body = getBody().front();
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || yield.getTerm().getType() != type)
    return emitOpError() << "must end with a tpc_kernel.yield of " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// SizeOp
//===----------------------------------------------------------------------===//

void SizeOp::build(OpBuilder &b, OperationState &state, const SymExpr &size) {
  state.addAttribute("size", SymExprAttr::get(b.getContext(), size));
  state.addTypes(b.getIndexType());
}
