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
  let summary = "Device-independent loops of generated kernels";
  let description = [{
    A kernel computes ops without a library call: chains of element-wise ops, norms, softmax,
    lookups and movements. This dialect provides the loops. Other ops are upstream's: `arith` and
    `math` for arithmetic, `scf.if` for branches, `scf.for` for sums up to an index, `memref.load`
    and `memref.store` for memory. Kernels contain no other ops and are device-independent: the CPU
    target emits vectorizable loops; the GPU target assigns rows to blocks or warps and elements to
    threads.

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
    `rank.mb` is the micro-batch index), never numbers computed from them: the same IR is valid for
    all values of its symbols. Operands and results are dense and row-major, except for operands
    with a `stride`. Their types `memref<?x?xf32>` specify only rank and element type; the function
    specifies the sizes. Element types are signless (arithmetic ops define the signedness); an `i1`
    takes a byte.

    **Indices** have type `index`. Each index into a dimension and each loop size is less than 2^31,
    so 32 bits are enough. Linear memory offsets and linear row indices may need 64 bits.
    `FuncOp::getExtents` lists the sizes that a target with indices of less than 64 bits must check.

    **Arithmetic** follows IEEE 754 exactly, without fast-math flags. Values of 16 bits are widened
    to f32 and rounded by an explicit `arith.truncf`. A target may choose only the order in which a
    `fold` reduces its terms.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

class TpcKernel_Op<string mnemonic, list<Trait> traits = []>
    : Op<TpcKernel_Dialect, mnemonic, traits>;

def TpcKernel_FuncOp
    : TpcKernel_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let summary = "A kernel: operands, results, and one tpc_kernel.rows";
  let description = [{
    Operands are read, results are written. Both are memory, `memref<?x…>` with one dimension for
    each size. An operand may be columns of a larger buffer: in `%x: memref<?x?x?xf32> of
    [n, 12, 64] rows 1 stride "3*_768"` the first dimension counts rows, which are `3*_768` elements
    apart; the elements of a row are dense. No result aliases another result, nor an operand unless
    it is marked: a launch may pass the memory of `%w` for `%y: memref<?xf32> of [768] over %w`. The
    body has sizes and constants, then one `tpc_kernel.rows`. A conditional store may write a slice
    of a result; the other elements stay unchanged. The slice may be in another row of the result if
    no two rows store to the same element. For example, this kernel appends new keys to a cache:

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

    The runtime launches a kernel on disjoint ranges of its rows, possibly in parallel. All ranges
    complete before any reader of the results begins.

    Errors:

    * an op that is not listed above; fast-math flags;
    * a load with too few or too many indices, or from memory that is not an argument;
    * a stride of a result, or of more dimensions than the operand has;
    * a store outside of `tpc_kernel.elements`, or to an operand;
    * a store to another row, unless it is conditional and each of its row indices is the current
      row's index plus a term that is equal for all rows with the same preceding indices;
    * a load from a result before the store, from another row, or without a `tpc_kernel.barrier`
      after the store; a load from a result of which rows store only a slice;
    * a result `over` an operand of another type, with other sizes or with a stride, or over the
      operand of another result; a load from that operand of another element than the
      one that is stored, or not before the store in the same `tpc_kernel.elements`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<Tpc_SymExprs, "lists of sizes">:$sizes,
                       I64Attr:$num_results, OptionalAttr<DenseI64ArrayAttr>:$row_dims,
                       OptionalAttr<Tpc_SymExprs>:$row_strides,
                       OptionalAttr<DenseI64ArrayAttr>:$over);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins
    "::llvm::StringRef":$name, "::mlir::TypeRange":$elements,
    "::llvm::ArrayRef<::llvm::SmallVector<::tpc::SymExpr>>":$sizes, "unsigned":$numResults)>];
  let extraClassDeclaration = [{
    /// Layout of an operand whose rows are not adjacent: the number of leading dimensions that
    /// count rows, and the distance between rows in elements.
    struct RowStride {
      unsigned dims;
      ::tpc::SymExpr stride;
    };
    /// Returns nothing for dense memory.
    std::optional<RowStride> getRowStride(::mlir::Value memory);
    void setRowStride(unsigned argument, std::optional<RowStride> rows);
    ::mlir::Block::BlockArgListType getOperandMemory() {
      return getBody().getArguments().drop_back(getNumResults());
    }
    ::mlir::Block::BlockArgListType getResultMemory() {
      return getBody().getArguments().take_back(getNumResults());
    }
    /// Returns the number of the operand whose memory a result may have; nothing if there is none.
    std::optional<unsigned> getOverwritten(unsigned result);
    /// Whether a result may have the memory of `operand`.
    bool isOverwritten(::mlir::Value operand);
    /// Lets result number `result` have the memory of an operand.
    void setOverwritten(unsigned result, unsigned operand);
    /// Returns the sizes of an operand's or result's dimensions.
    ::llvm::SmallVector<::tpc::SymExpr> getSizesOf(::mlir::Value memory);
    RowsOp getRows();
    /// Whether rows store only a slice of `result`.
    bool isPartiallyWritten(::mlir::Value result);
    /// Returns all sizes that are loop bounds or are compared with an index. Each must be less than
    /// 2^31.
    ::llvm::SmallVector<::tpc::SymExpr> getExtents();
  }];
}

def TpcKernel_RowsOp
    : TpcKernel_Op<"rows",
                   [HasParent<"FuncOp">, SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "Parallel loop over rows";
  let description = [{
    `tpc_kernel.rows (%b, %s) in [batch, sequence] { … }`: one index for each leading dimension that
    all results share; without indices there is one row. Rows are independent. A launch covers a
    range of linear (row-major) row indices.

    Ops of a row run in order. Values at this level (a norm's mean, a row index of a table) are
    uniform over the row, so all threads of the row have the same value.
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
  let summary = "Parallel loop over elements of a row, which stores results";
  let description = [{
    `tpc_kernel.elements (%h, %j) in [12, 64] { … }` runs the body once for each index. No iteration
    loads an element that another iteration stores, and no two iterations store the same element.
    Without indices the body runs once. `memref.store` is allowed only here, directly or in a
    `scf.if`.
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
  let summary = "Reduces terms over an iteration space";
  let description = [{
        %s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
          …
          tpc_kernel.yield %term : f32
        }

    | kind | elements | x with y |
    |---|---|---|
    | `sum` | floats, integers | x + y |
    | `max`, `min` | floats, signed integers | maximum, minimum; NaN if either is NaN |
    | `umax`, `umin` | unsigned integers | maximum, minimum |
    | `maxnum` | floats | maximum; if one is NaN, the other; for zeros of both signs, either |

    The result is `init` reduced with all terms; for an empty iteration space it is `init`. The
    target chooses the order, which must depend only on sizes. It may reduce terms into several
    partial results, each of which starts at `init`. Lanes without a term contribute `identity`, the
    neutral element. `init` is equal to `identity`, except for sums of floats: their identity is -0,
    but `init` is 0, so that an empty sum is 0.

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
    /// Returns the neutral element (or the initial value) of a reduction; null if the kind does not
    /// support the type.
    static ::mlir::TypedAttr getIdentity(FoldKind kind, ::mlir::Type type);
    static ::mlir::TypedAttr getInit(FoldKind kind, ::mlir::Type type);
    /// Builds the reduction of x and y, which are scalars or vectors.
    static ::mlir::Value combine(::mlir::OpBuilder &b, ::mlir::Location loc, FoldKind kind,
                                 ::mlir::Value x, ::mlir::Value y);
  }];
}

def TpcKernel_YieldOp : TpcKernel_Op<"yield", [HasParent<"FoldOp">, Pure, Terminator, ReturnLike]> {
  let summary = "Yields the term of a fold";
  let arguments = (ins AnyType:$term);
  let assemblyFormat = "$term attr-dict `:` type($term)";
}

def TpcKernel_SizeOp : TpcKernel_Op<"size", [Pure]> {
  let summary = "Value of a size";
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
  let summary = "Reports an out-of-bounds index of a table";
  let description = [{
    `tpc_kernel.check %exists, %index of %size at "wte"`: if `exists` is false, the step fails. The
    message contains the ONNX node, `index` and `size`. The step fails only at its end: the kernel
    continues, and must not load at an out-of-bounds index.
  }];
  let arguments = (ins I1:$exists, Index:$index, Index:$size, StrAttr:$node);
  let assemblyFormat = "$exists `,` $index `of` $size `at` $node attr-dict";
}

def TpcKernel_BarrierOp
    : TpcKernel_Op<"barrier", [HasParent<"RowsOp">, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for all preceding stores of the row";
  let description = [{
    Separates a `tpc_kernel.elements` that stores to a result from ops that load the stored elements
    in the same row. The threads of a row synchronize; if one thread runs the entire row, the op is
    a no-op.
  }];
  let assemblyFormat = "attr-dict";
}

#endif
