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

    An op may overwrite a slice of an operand's memory in place (`tpc.append`). Then rows and
    elements are those of the written value (`getWritten`), and the op maps their indices to indices
    in the operand's memory. No kernel reads the result of such an op.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds the element that is written at `index`, which has one local index for "
                    "each dimension.",
      "::mlir::Value", "buildElement", (ins "::mlir::tpc::KernelBuilder &":$builder,
                                            "::mlir::ValueRange":$index)>,
    InterfaceMethod<"Builds and caches the values that all elements of a row share. `index` has "
                    "one value for each row dimension.",
      "void", "buildRow", (ins "::mlir::tpc::KernelBuilder &":$builder,
                               "::mlir::ValueRange":$index), "", [{ (void)$_op; }]>,
    InterfaceMethod<"Returns the operand whose memory is overwritten in place; null if the result "
                    "has its own memory, which is written completely.",
      "::mlir::Value", "getAliasedOperand", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Returns the value that is written, whose dimensions are those of `index`.",
      "::mlir::Value", "getWritten", (ins), "", [{ return $_op->getResult(0); }]>,
    InterfaceMethod<[{
      Replaces the index of a written element by its index in the overwritten operand. Returns
      an `i1` that is true if the new index is in bounds, or null if it always is. The mapping is
      injective.
      }], "::mlir::Value", "buildOverwrittenIndex",
      (ins "::mlir::tpc::KernelBuilder &":$builder,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$index), "",
      [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Returns the maximum number of leading dimensions of the written value that "
                    "may be row dimensions.",
      "int64_t", "getMaxRowRank", (ins), "", [{
        return ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType()).getRank();
      }]>,
    InterfaceMethod<"Whether a row of the result depends only on the same row of operand "
                    "`operand`. Rows have `rank` leading dimensions.",
      "bool", "isRowAligned", (ins "unsigned":$operand, "int64_t":$rank), "",
      [{ return false; }]>,
    InterfaceMethod<"Whether computing an element twice costs less than storing and loading it.",
      "bool", "isCheap", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Whether this op can be fused into a kernel at all.",
      "bool", "isKernelOp", (ins), "", [{ return true; }]>
  ];
}

#endif
