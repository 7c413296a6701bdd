//===- KernelOps.td - The tpc_kernel dialect ---------------*- tablegen -*-===//

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
  let summary = "Device-independent loops of a generated kernel";
  let description = [{
    A kernel computes ops that no library computes: chains of element-wise ops, norms, softmax,
    lookups and movements. This dialect provides its loops. Arithmetic is upstream's (`arith`,
    `math`), branches are `scf.if`, sums up to an index are `scf.for`, memory is accessed by
    `memref.load` and `memref.store`. A kernel contains no other ops and is independent of devices:
    the CPU target emits vectorizable loops; the GPU target assigns rows to blocks or warps and
    elements to threads.

        tpc_kernel.func @softmax(%x: memref<?x?xf32> of ["batch*sequence", vocabulary])
            -> (%y: memref<?x?xf32> of ["batch*sequence", vocabulary]) {
          tpc_kernel.rows (%row) in ["batch*sequence"] {
                    %largest = tpc_kernel.fold maxnum (%j) in [vocabulary] adjacent : f32
                init 0xFF800000 identity 0xFF800000 {
              %v = memref.load %x[%row, %j] : memref<?x?xf32>
              tpc_kernel.yield %v : f32
            }
                    %sum = tpc_kernel.fold sum (%j) in [vocabulary] adjacent : f32
                init 0.000000e+00 identity -0.000000e+00 {
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

    **Sizes** are expressions over the program's symbols and this rank's coordinates (`rank.tp`;
    `rank.mb` is the micro-batch index), never numbers computed from them: the same text is valid
    for all values of its symbols. Operands and results are dense and row-major. `memref<?x?xf32>`
    has only their rank and element type; the function has their sizes. Element types are signless
    (arithmetic ops define the signedness); an `i1` takes a byte.

    **Indices** have type `index`. Each index into a dimension and each loop size is less than 2^31,
    so 32 bits are enough. A linear offset in memory (index times sizes) may need more, and so may
    the number of a row among all rows. `FuncOp::getExtents` lists the sizes that a target with
    indices of less than 64 bits must check.

    **Numbers**: operations follow IEEE 754 exactly. There are no fast-math flags. Numbers of 16
    bits are widened to f32 and rounded by explicit `arith.truncf`. A device may choose only the
    order in which a `fold` reduces its terms.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

class TpcKernel_Op<string mnemonic, list<Trait> traits = []>
    : Op<TpcKernel_Dialect, mnemonic, traits>;

def TpcKernel_FuncOp
    : TpcKernel_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let summary = "A kernel: its operands, its results, and one tpc_kernel.rows";
  let description = [{
    Operands are read, results are written. Both are memory, `memref<?x…>` with one dimension for
    each size. No result aliases an operand or another result. The body has sizes and constants,
    then one `tpc_kernel.rows`. Under a condition, a row may store a slice of a result and keep the
    rest. The slice may be in another row of the result, as long as no two rows store to the same
    element. This writes new keys after those of a cache:

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

    A kernel is one step of a program. It is launched on any ranges of its rows, several at a time,
    and all of them complete before readers of the results begin.

    Errors:

    * an op that the dialect does not list; fast-math flags;
    * a load of another rank than its argument, or of memory that is no argument;
    * a store outside of `tpc_kernel.elements`, or to an operand;
    * a store to another row, unless it is under a condition and its row indices are the own ones,
      each plus a term that is equal for all rows with the same indices before it;
    * a read of a result before it is stored, in another row, without a `tpc_kernel.barrier` after
      the store, or of a result of which rows store only a slice.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<Tpc_SymExprs, "lists of sizes">:$sizes,
                       I64Attr:$num_results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins
    "::llvm::StringRef":$name, "::mlir::TypeRange":$elements,
    "::llvm::ArrayRef<::llvm::SmallVector<::tpc::SymExpr>>":$sizes, "unsigned":$numResults)>];
  let extraClassDeclaration = [{
    ::mlir::Block::BlockArgListType getOperandMemory() {
      return getBody().getArguments().drop_back(getNumResults());
    }
    ::mlir::Block::BlockArgListType getResultMemory() {
      return getBody().getArguments().take_back(getNumResults());
    }
    /// Returns the sizes of an operand's or result's dimensions.
    ::llvm::SmallVector<::tpc::SymExpr> getSizesOf(::mlir::Value memory);
    RowsOp getRows();
    /// Whether rows store only a slice of a result and keep the rest.
    bool isPartiallyWritten(::mlir::Value result);
    /// Returns all sizes that bound an index or that an index is compared with. Each must be less
    /// than 2^31.
    ::llvm::SmallVector<::tpc::SymExpr> getExtents();
  }];
}

def TpcKernel_RowsOp
    : TpcKernel_Op<"rows",
                   [HasParent<"FuncOp">, SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "The loop over rows, in any order or at the same time";
  let description = [{
    `tpc_kernel.rows (%b, %s) in [batch, sequence] { … }`: one index for each of the leading
    dimensions that all results share; without indices there is one row. Rows are independent. A
    launch covers any range of them, counted row-major.

    Ops of a row run in order. Values at this level (a norm's mean, the row of a table) are uniform
    over the row; all threads of the row have them.
  }];
  let arguments = (ins Tpc_SymExprs:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::tpc::SymExpr>":$sizes)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() {
      return ::mlir::tpc::SymExprAttr::getExprs(getSizes());
    }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
  }];
}

def TpcKernel_ElementsOp
    : TpcKernel_Op<"elements",
                   [HasParent<"RowsOp">, SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "A parallel loop over elements of a row, which stores results";
  let description = [{
    `tpc_kernel.elements (%h, %j) in [12, 64] { … }` runs the body once for each index. No iteration
    reads an element that another one stores, and no two store the same element. Without indices the
    body runs once. `memref.store` is allowed only here, directly or in a `scf.if`.
  }];
  let arguments = (ins Tpc_SymExprs:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::tpc::SymExpr>":$sizes)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() {
      return ::mlir::tpc::SymExprAttr::getExprs(getSizes());
    }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
  }];
}

def TpcKernel_FoldOp : TpcKernel_Op<"fold", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Reduces terms over all indices of a space";
  let description = [{
        %s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
          …
          tpc_kernel.yield %term : f32
        }

 kind | elements | x with y |
---|---|---|
 `sum` | floats, integers | x + y |
 `max`, `min` | floats, signed integers | maximum, minimum; NaN if either is NaN |
 `umax`, `umin` | unsigned integers | maximum, minimum |
 `maxnum` | floats | maximum; the number if the other is NaN; either of two zeros |

    The result is `init` reduced with all terms; for an empty space it is `init`. The device chooses
    the order, which is always the same for the same sizes. It may reduce terms into several partial
    results, each of which begins with `init`. A lane without a term (of 32 lanes, say) uses
    `identity`, the neutral element. So `init` is `identity`, or 0 for sums of floats, whose
    identity is -0: an empty sum is 0.

    `adjacent`: consecutive terms along the last dimension are contiguous in the reduced memory, so
    the reduction can be vectorized. Otherwise consecutive iterations of the enclosing loop are
    contiguous.

    Errors: an `identity` that is not neutral; a body that stores, or that yields another type.
  }];
  let arguments = (ins TpcKernel_FoldKind:$kind, Tpc_SymExprs:$sizes, UnitAttr:$adjacent,
                       TypedAttrInterface:$init, TypedAttrInterface:$identity);
  let results = (outs AnyType:$result);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "FoldKind":$kind, "::llvm::ArrayRef<::tpc::SymExpr>":$sizes,
                                 "bool":$adjacent, "::mlir::Type":$type)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::tpc::SymExpr> getExprs() {
      return ::mlir::tpc::SymExprAttr::getExprs(getSizes());
    }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
    ::mlir::Value getTerm() { return getBody().front().back().getOperand(0); }
    /// Return the neutral element and the initial value of a reduction; null if the kind does not
    /// support the type.
    static ::mlir::TypedAttr getIdentity(FoldKind kind, ::mlir::Type type);
    static ::mlir::TypedAttr getInit(FoldKind kind, ::mlir::Type type);
    /// Builds x reduced with y, for numbers or vectors of them.
    static ::mlir::Value combine(::mlir::OpBuilder &b, ::mlir::Location loc, FoldKind kind,
                                 ::mlir::Value x, ::mlir::Value y);
  }];
}

def TpcKernel_YieldOp : TpcKernel_Op<"yield", [HasParent<"FoldOp">, Pure, Terminator, ReturnLike]> {
  let summary = "Yields the term of a fold at an index";
  let arguments = (ins AnyType:$term);
  let assemblyFormat = "$term attr-dict `:` type($term)";
}

def TpcKernel_SizeOp : TpcKernel_Op<"size", [Pure]> {
  let summary = "The value of a size";
  let description = [{
    `%n = tpc_kernel.size "2*rank.tp + 1"`: an expression over the program's symbols and this rank's
    coordinates, equal for all rows.
  }];
  let arguments = (ins Tpc_SymExpr:$size);
  let results = (outs Index:$result);
  let assemblyFormat = "custom<SymExpr>($size) attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "const ::tpc::SymExpr &":$size)>];
  let extraClassDeclaration = "::tpc::SymExpr getExpr() { return getSize(); }";
}

def TpcKernel_CheckOp : TpcKernel_Op<"check", [MemoryEffects<[MemWrite]>]> {
  let summary = "Reports an index that is out of bounds of a table";
  let description = [{
    `tpc_kernel.check %exists, %index of %size at "wte"`: if `exists` is false, the step fails. The
    message names the ONNX node, the index as given, and the size of the dimension. The step fails
    at its end: the kernel continues in both cases, and must not read at that index.
  }];
  let arguments = (ins I1:$exists, Index:$index, Index:$size, StrAttr:$node);
  let assemblyFormat = "$exists `,` $index `of` $size `at` $node attr-dict";
}

def TpcKernel_BarrierOp
    : TpcKernel_Op<"barrier", [HasParent<"RowsOp">, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for all preceding stores of the row";
  let description = [{
    Separates `tpc_kernel.elements` that stores part of a result from ops that read it again in the
    same row. If one thread runs the whole row, it is a no-op; if several do, they synchronize.
  }];
  let assemblyFormat = "attr-dict";
}

#endif
