//===- Tpc.h - The tpc dialect ----------------------------------*- C++ -*-===//

#ifndef TPC_DIALECT_TPC_H
#define TPC_DIALECT_TPC_H

#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Interfaces/ShardingRule.h"
#include "tpc/Support/PipelineSchedule.h"
#include "tpc/Support/SymExpr.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "tpc/Dialect/TpcDialect.h.inc"
#include "tpc/Dialect/TpcEnums.h.inc"

namespace mlir::tpc {
/// Axis of stages: tpc.send and tpc.recv cross it.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";
/// Axis of micro-batches, in time: its coordinate is the iteration of tpc.micro_batches.
inline constexpr llvm::StringLiteral kMicroBatchAxis = "mb";
/// View whose ranks run the same program on different samples of the batch.
inline constexpr llvm::StringLiteral kReplicaView = "dp";
} // namespace mlir::tpc

namespace mlir::tpc::detail {
struct SymExprAttrStorage;
struct DimAttrStorage;
} // namespace mlir::tpc::detail

#define GET_ATTRDEF_CLASSES
#include "tpc/Dialect/TpcAttrs.h.inc"

#include "tpc/Interfaces/CollectiveInterfaces.h.inc"
#include "tpc/Interfaces/ElementsInterfaces.h.inc"
#include "tpc/Interfaces/ScalarInterfaces.h.inc"

namespace mlir::tpc {
/// Evaluates a comparison. False for NaN, except NE.
bool evaluatePredicate(Predicate predicate, double x, double y);
/// Whether the elements are unsigned (booleans, ui8) and need unsigned arith ops, because types of
/// the arith dialect are signless. `type` is a tensor type or an element type.
bool isUnsigned(Type type);
/// Parser and printer of a size, `custom<SymExpr>` in assembly formats: 768, batch, "2*batch + 1".
ParseResult parseSymExpr(AsmParser &parser, SymExprAttr &attr);
void printSymExpr(AsmPrinter &printer, SymExprAttr attr);
inline void printSymExpr(OpAsmPrinter &printer, Operation *, SymExprAttr attr) {
  printSymExpr(printer, attr);
}
/// Parser and printer of a list of sizes, `custom<SymExprs>`: [batch, 768].
ParseResult parseSymExprs(AsmParser &parser, ArrayAttr &list);
void printSymExprs(AsmPrinter &printer, ArrayAttr list);
inline void printSymExprs(OpAsmPrinter &printer, Operation *, ArrayAttr list) {
  printSymExprs(printer, list);
}
/// Returns the reduction that a split factor of this kind requires; nothing for kinds without one.
std::optional<ReductionKind> getReduction(FactorKind kind);
} // namespace mlir::tpc

#define GET_OP_CLASSES
#include "tpc/Dialect/TpcOps.h.inc"

#endif // TPC_DIALECT_TPC_H
