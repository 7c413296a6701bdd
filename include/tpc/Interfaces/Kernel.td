//===- Kernel.td - Interface of ops that kernels compute ---*- tablegen -*-===//

#ifndef TPC_INTERFACES_KERNEL
#define TPC_INTERFACES_KERNEL

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let description = [{
    An op that a generated kernel can compute element by element: the element at an index is an
    expression of elements of the operands. Element-wise ops, movements, norms and reductions have
    this form, so they fuse by substitution: the element of an operand is built by the op that
    defines it.

    A kernel iterates over rows: the leading dimensions that all of its results share. Values that
    are equal for a whole row (a norm's mean, an embedding's id) are computed before the loop over
    the row's elements.

    An op may write a slice of an operand's memory and keep the rest (`tpc.append`). Then rows and
    elements are those of the written value (`getWritten`), and the op maps them to offsets in the
    kept memory. No kernel reads its result.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds the value that is written at `index` (one local index for each "
                    "dimension).",
      "::mlir::Value", "buildElement", (ins "::mlir::tpc::KernelBuilder &":$emitter,
                                            "::mlir::ValueRange":$index)>,
    InterfaceMethod<"Builds and caches the values that all elements of a row share. `index` has "
                    "one value for each leading dimension that is a row.",
      "void", "buildRow", (ins "::mlir::tpc::KernelBuilder &":$emitter,
                               "::mlir::ValueRange":$index), "", [{ (void)$_op; }]>,
    InterfaceMethod<"The operand whose memory the result aliases, of which a slice is written. "
                    "Null: all of the result is written, in memory of its own.",
      "::mlir::Value", "getAliasedOperand", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"The written value: its dimensions are those of `index`.",
      "::mlir::Value", "getWritten", (ins), "", [{ return $_op->getResult(0); }]>,
    InterfaceMethod<[{
      Replaces the index of a written element by its index in the kept memory. Returns an `i1`,
      whether that index is in bounds, or null if it always is. The mapping is injective.
      }], "::mlir::Value", "buildKeptIndex",
      (ins "::mlir::tpc::KernelBuilder &":$emitter,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$index), "",
      [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Maximum number of leading dimensions of the written value that may be rows.",
      "int64_t", "getMaxRowRank", (ins), "", [{
        return ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType()).getRank();
      }]>,
    InterfaceMethod<"Whether a row of the result needs only the same row of operand `operand`, "
                    "for rows of `rank` leading dimensions.",
      "bool", "isRowAligned", (ins "unsigned":$operand, "int64_t":$rank), "",
      [{ return false; }]>,
    InterfaceMethod<"Whether computing an element twice costs less than storing and loading it.",
      "bool", "isCheap", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Whether this op can be fused into a kernel at all.",
      "bool", "isKernelOp", (ins), "", [{ return true; }]>
  ];
}

#endif
