//===- ShapeOps.td - Movement ops, indices and lookups -----*- tablegen -*-===//

#ifndef TPC_DIALECT_SHAPEOPS
#define TPC_DIALECT_SHAPEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_ReshapeOp : Tpc_ModelOp<"reshape", [MovementOpInterface]> {
  let summary = "Changes the shape; the row-major order of elements stays the same";
  let description = [{
    The result type determines the shape; there is no shape operand. The global numbers of elements
    must be equal as expressions.
    Rule: the coarsest common factors of both shapes; dimensions without common factors cannot be
    split. Linear. ONNX Reshape, Squeeze, Unsqueeze, Flatten.
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
    DeclareOpInterfaceMethods<MovementOpInterface, ["preservesAllElements"]>]> {
  let summary = "Selects elements start, start + step, … of one dimension; the result type "
                "determines their number";
  let description = [{
    `start` is a non-negative element index; `step` is not zero.
    `tpc.slice %x dim 1 from 64 step 1 : tensor<8x192xf32> -> tensor<8x64xf32>`.
    Rule: the sliced dimension cannot be split unless the slice covers all of it; the others are
    parallel. Linear. ONNX Slice, Split.
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
  let summary = "Concatenates tensors along one dimension, which cannot be split. Linear if all "
                "operands are unreduced. ONNX Concat.";
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

    Rule: `dim` has a permuted factor with runs of `every` elements; all others are parallel.
    Linear. If a run is split, `tpc-lower-reshards` replaces the op by a `tpc.collective_permute`;
    local programs have only unsplit runs. ONNX Concat of two Slices (torch.roll).
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
  let summary = "Tensor whose elements are their own indices along one dimension";
  let description = [{
    The result type determines the shape. Rule: every dimension is parallel; the values on a rank
    begin at the first global index of its shard. ONNX Range (with mul and add for start and step).
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
}

def Tpc_SizeOp : Tpc_ModelOp<"size"> {
  let summary = "Scalar tensor with the value of a symbolic size; the size is global, not local";
  let arguments = (ins Tpc_SymExpr:$expr);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "custom<SymExpr>($expr) attr-dict `:` type($result)";
}

def Tpc_GatherOp : Tpc_InferredOp<"gather", [DeclareOpInterfaceMethods<LookupOpInterface>]> {
  let summary = "Selects slices of one dimension by index";
  let description = [{
    data [a.., n, b..], indices [i..] -> [a.., i.., b..]; `dim` is the position of n. Indices range
    from -n to n-1, as in ONNX. Other indices are run-time errors if they are model inputs, and
    undefined otherwise. Rule: n is a reduction factor (sum) for floats, as in an embedding, and
    cannot be split for other types; all other dimensions are parallel. Linear in data. ONNX Gather.
  }];
  let arguments = (ins Tpc_Tensor:$data, Tpc_IntTensor:$indices, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $data `,` $indices `dim` $dim attr-dict `:` type($data) `,` type($indices) `->` type($result)
  }];
}

def Tpc_GatherNDOp : Tpc_InferredOp<"gather_nd", [DeclareOpInterfaceMethods<LookupOpInterface>]> {
  let summary = "Selects slices by index tuples";
  let description = [{
    ONNX GatherND: data [batch.., d1..dk, rest..], indices [batch.., i.., k] ->
    [batch.., i.., rest..], with `batch_dims` leading dimensions in common and a static last
    dimension k of indices.
    Rule: batch, i and rest are parallel; k cannot be split. d1..dk are reduction factors (sum) for
    floats: a rank returns zero for elements of other shards. For other types they cannot be split.
    Linear in data.
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
  let summary = "Cumulative sum along one dimension, which cannot be split. ONNX CumSum.";
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
  let summary = "Keeps a triangle of the last two dimensions and sets other elements to zero. "
                "ONNX Trilu.";
  let description = [{
    `upper` keeps column - row >= k; otherwise column - row <= k. Neither dimension can be split.
    Linear.
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
