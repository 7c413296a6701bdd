//===- ProgramOps.td - Weights and constants --------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_PROGRAMOPS
#define TPC_DIALECT_PROGRAMOPS

include "tpc/Dialect/TpcBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

def Tpc_WeightOp : Tpc_Op<"weight", [Symbol]> {
  let summary = "Location of a weight in the model's files; the IR does not contain its elements";
  let description = [{
    `tpc.weight @"h.0.attn.c_attn.weight" in "gpt2.onnx.data" at 4096 : tensor<64x192xf32>`.
    `file` is an absolute path, or relative to the folder of `tpc.source`. `offset` is in bytes; the
    elements are little-endian and row-major. The importer creates the op; the executable's manifest
    is written from it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$file, I64Attr:$offset,
                       TypeAttrOf<Tpc_Tensor>:$type);
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name `in` $file `at` $offset attr-dict `:` $type";
}

def Tpc_ParameterOp : Tpc_ModelOp<"parameter", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Value of a weight, read through a view";
  let description = [{
    Without a view, the value is the entire dense weight. A view selects elements, see `#tpc.view`;
    transposes, slices and reshapes of parameters fold into it. The distribution of the result
    determines the shard that a rank loads; parameter ops of the same weight may have different
    distributions. Rule: one parallel factor for each dimension.
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight, OptionalAttr<Tpc_ViewAttr>:$view);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$weight (`view` $view^)? attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// Returns the view, or the dense view of the weight if the op has none.
    ViewAttr getViewOrDense();
    WeightOp getWeightOp();
  }];
}

def Tpc_ConstantOp : Tpc_ModelOp<"constant", [ConstantLike]> {
  let summary = "A small constant tensor. Replicated; each dimension has a parallel factor.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

#endif
