//===- Kernel.td - Ops that become part of kernels ------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_KERNEL
#define TPC_INTERFACES_KERNEL

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let description = [{
    An op that a generated kernel can compute, one element at a time: the element at an index is an expression of
    elements of the operands. Element-wise ops, movements, norms and reductions all have this form, so they fuse by substitution:
    whoever needs an element asks the op that makes it.

    A kernel goes over rows: the leading dimensions that all of its results share. What is the same for a whole row (a
    norm's mean, an embedding's id) is computed before the loop over the row's elements.

    An op may write a part of an operand's memory, and leave the rest (`tpc.append`). Then rows and elements are those of what is
    written (`getWritten`), and the op says where they go. No kernel reads its result.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds the value that is written at `index` (one `index` for each dimension, local).",
      "::mlir::Value", "buildElement", (ins "::mlir::tpc::KernelBuilder &":$emitter, "::mlir::ValueRange":$index)>,
    InterfaceMethod<"Builds and remembers what all elements of a row share. `index` has one value for each leading dimension that is a row.",
      "void", "buildRow", (ins "::mlir::tpc::KernelBuilder &":$emitter, "::mlir::ValueRange":$index), "", [{ (void)$_op; }]>,
    InterfaceMethod<"The operand in whose memory the result lies, of which a part is written; null: all of the result is, in memory of its own.",
      "::mlir::Value", "getKept", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"What is written: its dimensions are those of `index`.", "::mlir::Value", "getWritten", (ins), "",
      [{ return $_op->getResult(0); }]>,
    InterfaceMethod<[{
      Turns the index of an element that is written into its index in the kept memory, and returns whether that has such a place: an `i1`, or
      null where it always has. No two elements have the same place.
      }], "::mlir::Value", "buildPlace", (ins "::mlir::tpc::KernelBuilder &":$emitter, "::llvm::SmallVectorImpl<::mlir::Value> &":$index), "",
      [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"How many leading dimensions of what is written may at most be rows.",
      "int64_t", "getMaxRowRank", (ins), "", [{
        return ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType()).getRank();
      }]>,
    InterfaceMethod<"Whether a row of the result needs only the same row of operand `operand`, for rows of `rank` leading dimensions.",
      "bool", "isRowAligned", (ins "unsigned":$operand, "int64_t":$rank), "", [{ return false; }]>,
    InterfaceMethod<"Whether computing an element twice costs less than storing and loading it.",
      "bool", "isCheap", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Whether this op can be part of a kernel at all.", "bool", "isKernelOp", (ins), "", [{ return true; }]>
  ];
}

#endif
