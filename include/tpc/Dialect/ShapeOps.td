//===- ShapeOps.td - Ops that move elements ----------------*- tablegen -*-===//

#ifndef TPC_DIALECT_SHAPEOPS
#define TPC_DIALECT_SHAPEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_ReshapeOp : Tpc_ModelOp<"reshape", [MovementOpInterface]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    The result type determines the shape; there is no shape operand. The global numbers of elements
    must be equal as expressions.
    Rule: the coarsest factors from which both shapes can be composed; dimensions without such
    factors are whole. Linear. ONNX Reshape, Squeeze, Unsqueeze, Flatten.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_TransposeOp : Tpc_InferredOp<"transpose", [MovementOpInterface]> {
  let summary = "Permutes dimensions: result dimension i is operand dimension permutation[i]. "
                "ONNX Transpose.";
  let arguments = (ins Tpc_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operand $permutation attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_ExpandOp : Tpc_ModelOp<"expand", [MovementOpInterface]> {
  let summary = "Broadcasts dimensions of size 1, and new leading ones, to the result type. "
                "ONNX Expand.";
  let description = [{
    Rule: dimensions that are not broadcast share a parallel factor; the factor of a broadcast
    dimension occurs only in the result. Linear.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_SliceOp : Tpc_ModelOp<"slice", [
    DeclareOpInterfaceMethods<MovementOpInterface, ["keepsEveryElement"]>]> {
  let summary = "Elements start, start + step, … of one dimension; the result type gives "
                "their number";
  let description = [{
    `start` is a non-negative element index; `step` is not zero.
    `tpc.slice %x dim 1 from 64 step 1 : tensor<8x192xf32> -> tensor<8x64xf32>`.
    Rule: the sliced dimension is whole on both sides unless the slice covers all of it; the others
    are parallel. Linear. ONNX Slice, Split.
  }];
  let arguments = (ins Tpc_Tensor:$operand, I64Attr:$dim, Tpc_SymExpr:$start,
                       DefaultValuedAttr<I64Attr, "1">:$step);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = [{
    $operand `dim` $dim `from` custom<SymExpr>($start) (`step` $step^)? attr-dict `:`
    type($operand) `->` type($result)
  }];
}

def Tpc_ConcatOp : Tpc_InferredOp<"concat"> {
  let summary = "Joins tensors along one dimension, which is whole. Linear in all operands "
                "together. ONNX Concat.";
  let arguments = (ins Variadic<Tpc_Tensor>:$operands, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operands `dim` $dim attr-dict `:` type($operands) `->` type($result)";
}

def Tpc_RollOp : Tpc_InferredOp<"roll", [MovementOpInterface]> {
  let summary = "Cyclic shift of one dimension, or of each run of `every` elements of it";
  let description = [{
    Element r·every + i of the result is element r·every + (from + i) mod every of the operand.
    `every` divides the size of `dim`; `from` is any integer.
    `tpc.roll %x dim 1 from 1 every sequence` shifts each sequence of `[batch, sequence, 40]` left
    by one; on `[batch * sequence, 40]`, `dim 0` does the same.

    Rule: `dim` is permuted within runs, all others are parallel, and the op is linear: the global
    value does not depend on the split. Where a run is split, `tpc-lower-reshards` replaces the op
    by a `tpc.collective_permute`; in a local program runs are whole. ONNX Concat of two Slices
    (torch.roll).
  }];
  let arguments = (ins Tpc_Tensor:$operand, I64Attr:$dim, Tpc_SymExpr:$from, Tpc_SymExpr:$every);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = [{
    $operand `dim` $dim `from` custom<SymExpr>($from) `every` custom<SymExpr>($every) attr-dict
    `:` type($operand) `->` type($result)
  }];
  let extraClassDeclaration = [{
    ::mlir::Value buildPermute(::mlir::OpBuilder &builder, ::mlir::ArrayAttr axes);
  }];
}

def Tpc_IotaOp : Tpc_ModelOp<"iota"> {
  let summary = "Each element is its own index along one dimension";
  let description = [{
    The result type gives the shape. Rule: every dimension is parallel; a split dimension begins at
    this rank's first index. ONNX Range (with mul and add for start and step).
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
}

def Tpc_SizeOp : Tpc_ModelOp<"size"> {
  let summary = "A symbolic size as a number: a scalar tensor (global, not local)";
  let arguments = (ins Tpc_SymExpr:$expr);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "custom<SymExpr>($expr) attr-dict `:` type($result)";
}

def Tpc_GatherOp : Tpc_InferredOp<"gather", [DeclareOpInterfaceMethods<LookupOpInterface>]> {
  let summary = "Picks slices of one dimension by index";
  let description = [{
    data [a.., n, b..], indices [i..] -> [a.., i.., b..]; `dim` is the position of n. Indices range
    from -n to n-1, as in ONNX. Others are run-time errors for inputs and undefined elsewhere.
    Rule: n is a reduction (sum) for floats, as in an embedding, and whole for other types; the rest
    is parallel. Linear in data. ONNX Gather.
    other types; the rest parallel; linear in data. ONNX Gather.
  }];
  let arguments = (ins Tpc_Tensor:$data, Tpc_IntTensor:$indices, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $data `,` $indices `dim` $dim attr-dict `:` type($data) `,` type($indices) `->` type($result)
  }];
}

def Tpc_GatherNDOp : Tpc_InferredOp<"gather_nd", [DeclareOpInterfaceMethods<LookupOpInterface>]> {
  let summary = "Picks slices by index tuples";
  let description = [{
    ONNX GatherND: data [batch.., d1..dk, rest..], indices [batch.., i.., k] ->
    [batch.., i.., rest..], with `batch_dims` leading dimensions in common and a static last
    dimension k of indices.
    Rule: batch, i and rest are parallel, k is whole. d1..dk are reductions (sum) for floats: a rank
    contributes zero for elements of other shards. For other types they are whole. Linear in data.
  }];
  let arguments = (ins Tpc_Tensor:$data, Tpc_IntTensor:$indices,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $data `,` $indices (`batch` $batch_dims^)? attr-dict `:` type($data) `,` type($indices) `->`
    type($result)
  }];
}

def Tpc_CumSumOp : Tpc_InferredOp<"cumsum"> {
  let summary = "Running sum along one dimension, which is whole. ONNX CumSum.";
  let arguments = (ins Tpc_Tensor:$operand, I64Attr:$dim, UnitAttr:$exclusive,
                       UnitAttr:$reverse);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $operand `dim` $dim (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:`
    type($operand) `->` type($result)
  }];
}

def Tpc_TriluOp : Tpc_InferredOp<"trilu"> {
  let summary = "Keeps a triangle of the last two dimensions, zero elsewhere. ONNX Trilu.";
  let description = [{
    `upper` keeps column - row >= k; otherwise column - row <= k. Both dimensions are whole. Linear.
  }];
  let arguments = (ins Tpc_Tensor:$operand, UnitAttr:$upper,
                       DefaultValuedAttr<Tpc_SymExpr, "::tpc::SymExpr(0)">:$k);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    (`upper` $upper^)? $operand (`k` custom<SymExpr>($k)^)? attr-dict `:` type($operand) `->`
    type($result)
  }];
}

#endif
