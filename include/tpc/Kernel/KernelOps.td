//===- KernelOps.td - The dialect of kernels --------------------*- tablegen -*-===//

#ifndef TPC_KERNEL_KERNELOPS
#define TPC_KERNEL_KERNELOPS

include "tpc/Dialect/TpcAttrs.td"
include "tpc/Kernel/KernelEnums.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TpcKernel_Dialect : Dialect {
  let name = "tpc_kernel";
  let cppNamespace = "::mlir::tpc::kernel";
  let summary = "What a generated kernel computes, for any device";
  let description = [{
    A kernel computes what no library computes: chains of element-wise ops, norms, softmax, lookups, movements. This dialect has
    its loops; all arithmetic is upstream's (`arith`, `math`), branches are `scf.if`, sums up to an index are `scf.for`, memory is
    read and written by `memref.load` and `memref.store`. Nothing else may stand in a kernel, and nothing in it knows a device: a CPU makes loops of it that
    vectorize, a GPU would give a row to a block or a warp and elements to threads.

        tpc_kernel.func @softmax(%x: memref<?x?xf32> of ["batch*sequence", vocabulary])
            -> (%y: memref<?x?xf32> of ["batch*sequence", vocabulary]) {
          tpc_kernel.rows (%row) in ["batch*sequence"] {
            %largest = tpc_kernel.fold maxnum (%j) in [vocabulary] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
              %v = memref.load %x[%row, %j] : memref<?x?xf32>
              tpc_kernel.yield %v : f32
            }
            %sum = tpc_kernel.fold sum (%j) in [vocabulary] adjacent : f32 init 0.000000e+00 identity -0.000000e+00 {
              %v = memref.load %x[%row, %j] : memref<?x?xf32>
              %d = arith.subf %v, %largest : f32
              %e = math.exp %d : f32
              tpc_kernel.yield %e : f32
            }
            tpc_kernel.elements (%j) in [vocabulary] {
              %v = memref.load %x[%row, %j] : memref<?x?xf32>
              %d = arith.subf %v, %largest : f32
              %e = math.exp %d : f32
              %q = arith.divf %e, %sum : f32
              memref.store %q, %y[%row, %j] : memref<?x?xf32>
            }
          }
        }

    **Sizes** are expressions over the program's symbols and this rank's coordinates (`rank.tp`; `rank.mb` is the micro-batch), never numbers
    that were computed from them: the same text says what a kernel does for any values of its symbols. Operands and results are dense
    and row-major; `memref<?x?xf32>` says only their rank and elements, the function says their sizes. Elements are without sign
    (arithmetic says which it means); an `i1` takes a byte.

    **Indices** are of type `index`. Each index into a dimension, and each size of a loop, is less than 2^31, so that 32 bits are enough for
    them; where an element lies in memory (index times sizes) may need more, and so may the number of a row in all rows.
    `FuncOp::getExtents` lists the sizes of which that must be checked by who computes with fewer than 64 bits.

    **Numbers**: an operation means what IEEE 754 says, to the bit. No fast-math flags; numbers of 16 bits are widened to f32 and rounded where `arith.truncf`
    stands. What a device may choose is the order in which a `fold` combines its terms, and nothing else.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

class TpcKernel_Op<string mnemonic, list<Trait> traits = []> : Op<TpcKernel_Dialect, mnemonic, traits>;

def TpcKernel_FuncOp : TpcKernel_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let summary = "A kernel: its operands, its results, and one tpc_kernel.rows";
  let description = [{
    Operands are read, results are written; both are memory, `memref<?x…>` of as many dimensions as there are sizes. No result is
    the same memory as an operand or another result. The body has sizes and constants, then one `tpc_kernel.rows`.

    Under a condition, rows may store a part of a result and leave the rest as it was, and that to another row, as long as no two rows have a place in common.
    So new keys are written behind those that a cache has:

        %length = memref.load %lengths[%b] : memref<?xi64>
        %0 = arith.index_cast %length : i64 to index
        %at = arith.addi %0, %s : index
        %exists = arith.cmpi ult, %at, %capacity : index
        tpc_kernel.elements (%j) in [64] {
          …
          scf.if %exists {
            memref.store %v, %cache[%b, %h, %at, %j] : memref<?x?x?x?xf32>
          }
        }

    A kernel is one step of a program: it is launched with any range of its rows, in any number of pieces at a time, and all have ended before what reads
    the results begins.

    Errors: an op that is none of those that the dialect lists; fast-math flags; a load of other rank or with other memory than
    an argument; a store outside of `tpc_kernel.elements`, or to an operand, or to another row, unless under a condition to one whose indices are the own ones and what
    all rows with the same indices before add; a result that is read before it is stored, or in another row than
    the own one, or without a `tpc_kernel.barrier` behind the store, or of which rows store only a part.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<Tpc_SymExprs, "lists of sizes">:$sizes, I64Attr:$num_results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::TypeRange":$elements,
                                 "::llvm::ArrayRef<::llvm::SmallVector<::tpc::SymExpr>>":$sizes, "unsigned":$numResults)>];
  let extraClassDeclaration = [{
    ::mlir::Block::BlockArgListType getOperandMemory() { return getBody().getArguments().drop_back(getNumResults()); }
    ::mlir::Block::BlockArgListType getResultMemory() { return getBody().getArguments().take_back(getNumResults()); }
    /// Sizes of an operand's or result's dimensions.
    ::llvm::SmallVector<::tpc::SymExpr> getSizesOf(::mlir::Value memory);
    RowsOp getRows();
    /// Whether rows store only a part of a result: the rest is what it was.
    bool isKept(::mlir::Value result);
    /// All sizes that an index runs over or that an index is compared with: each must be less than 2^31.
    ::llvm::SmallVector<::tpc::SymExpr> getExtents();
  }];
}

def TpcKernel_RowsOp
    : TpcKernel_Op<"rows", [HasParent<"FuncOp">, SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "The loop over rows, in any order or at the same time";
  let description = [{
    `tpc_kernel.rows (%b, %s) in [batch, sequence] { … }`: one index for each of the leading dimensions that all results share; without indices
    there is one row. Rows know nothing of each other. A launch goes over any range of them, counted row-major.

    Within a row ops follow one another. Values of this level (a norm's mean, the row of a table) are the same for all of the row; all who
    work on the row have them.
  }];
  let arguments = (ins Tpc_SymExprs:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::tpc::SymExpr>":$sizes)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() { return ::mlir::tpc::SymExprAttr::getExprs(getSizes()); }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
  }];
}

def TpcKernel_ElementsOp
    : TpcKernel_Op<"elements", [HasParent<"RowsOp">, SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "A loop over elements of a row, in any order or at the same time; stores";
  let description = [{
    `tpc_kernel.elements (%h, %j) in [12, 64] { … }`: the body once for each index. No iteration reads what another one stores, and no two store the
    same element. Without indices the body runs once. `memref.store` stands here alone, or in a `scf.if` here.
  }];
  let arguments = (ins Tpc_SymExprs:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::tpc::SymExpr>":$sizes)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() { return ::mlir::tpc::SymExprAttr::getExprs(getSizes()); }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
  }];
}

def TpcKernel_FoldOp : TpcKernel_Op<"fold", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Combines terms over all indices of a space";
  let description = [{
    `%s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 { …; tpc_kernel.yield %term : f32 }`

    | kind | elements | x with y |
    |---|---|---|
    | `sum` | floats, integers | x + y |
    | `max`, `min` | floats, signed integers | the larger, smaller; NaN if one is NaN |
    | `umax`, `umin` | unsigned integers | the larger, smaller |
    | `maxnum` | floats | the larger; of a number and NaN the number; either of two zeros |

    The result is `init` combined with all terms; of an empty space it is `init`. The order is the device's choice, and always the same for the same sizes: terms may be
    combined in several partial results, each of which begins with `init`. A place for which there is no term (of 32 lanes, say) takes `identity`,
    which changes nothing that it is combined with. So `init` is `identity`, or 0 for sums of floats, whose identity is -0: a
    sum of nothing is 0.

    `adjacent`: terms that follow one another along the last dimension are next to each other in what is reduced, so that it pays to combine them in lanes;
    otherwise neighbours of this fold are, in the loop around it.

    Errors: an identity that is none; a body that stores, or yields another type.
  }];
  let arguments = (ins TpcKernel_FoldKind:$kind, Tpc_SymExprs:$sizes, UnitAttr:$adjacent, TypedAttrInterface:$init,
                       TypedAttrInterface:$identity);
  let results = (outs AnyType:$result);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "FoldKind":$kind, "::llvm::ArrayRef<::tpc::SymExpr>":$sizes, "bool":$adjacent, "::mlir::Type":$type)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() { return ::mlir::tpc::SymExprAttr::getExprs(getSizes()); }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
    ::mlir::Value getTerm() { return getBody().front().back().getOperand(0); }
    /// What does not change what it is combined with, and what a fold begins with; null where the kind is none for the type.
    static ::mlir::TypedAttr getIdentity(FoldKind kind, ::mlir::Type type);
    static ::mlir::TypedAttr getInit(FoldKind kind, ::mlir::Type type);
    /// x combined with y, numbers or vectors of them.
    static ::mlir::Value combine(::mlir::OpBuilder &b, ::mlir::Location loc, FoldKind kind, ::mlir::Value x, ::mlir::Value y);
  }];
}

def TpcKernel_YieldOp : TpcKernel_Op<"yield", [HasParent<"FoldOp">, Pure, Terminator, ReturnLike]> {
  let summary = "The term of a fold at an index";
  let arguments = (ins AnyType:$term);
  let assemblyFormat = "$term attr-dict `:` type($term)";
}

def TpcKernel_SizeOp : TpcKernel_Op<"size", [Pure]> {
  let summary = "The value of a size";
  let description = [{
    `%n = tpc_kernel.size "2*rank.tp + 1"`: an expression over the program's symbols and this rank's coordinates, the same in
    all rows.
  }];
  let arguments = (ins Tpc_SymExpr:$size);
  let results = (outs Index:$result);
  let assemblyFormat = "custom<SymExpr>($size) attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "const ::tpc::SymExpr &":$size)>];
  let extraClassDeclaration = "::tpc::SymExpr getExpr() { return getSize(); }";
}

def TpcKernel_CheckOp : TpcKernel_Op<"check", [MemoryEffects<[MemWrite]>]> {
  let summary = "Reports an index that a table does not have";
  let description = [{
    `tpc_kernel.check %exists, %index of %size at "wte"`: where `exists` is false, the step fails, and the message names the ONNX node, the index as it was given, and
    the size of the dimension. It fails when the step ends: the kernel goes on in both cases, and must not read there.
  }];
  let arguments = (ins I1:$exists, Index:$index, Index:$size, StrAttr:$node);
  let assemblyFormat = "$exists `,` $index `of` $size `at` $node attr-dict";
}

def TpcKernel_BarrierOp : TpcKernel_Op<"barrier", [HasParent<"RowsOp">, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until all of the row is stored that ops before have stored";
  let description = [{
    Stands between `tpc_kernel.elements` that stores part of a result and what reads it again in the same row. Where one thread does all of a row it
    is nothing; where many do, they wait for each other.
  }];
  let assemblyFormat = "attr-dict";
}

#endif
