//===- ProgramOps.td - Weights and constants --------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_PROGRAMOPS
#define TPC_DIALECT_PROGRAMOPS

include "tpc/Dialect/TpcBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

def Tpc_WeightOp : Tpc_Op<"weight", [Symbol]> {
  let summary = "Where a tensor of the file lies; its bytes are never in the IR";
  let description = [{
    `tpc.weight @"h.0.attn.c_attn.weight" in "gpt2.onnx.data" at 4096 : tensor<64x192xf32>`. `file` is a path
    (absolute, or relative to `tpc.source`'s folder), `offset` counts bytes, little-endian
    row-major elements follow. Created by the importer, read by the executable's manifest.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$file, I64Attr:$offset, TypeAttrOf<Tpc_Tensor>:$type);
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name `in` $file `at` $offset attr-dict `:` $type";
}

def Tpc_ParameterOp : Tpc_ModelOp<"parameter", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a weight, through a view";
  let description = [{
    Without a view: the whole weight, dense. Views say which elements, see `#tpc.view`; transposes, slices and reshapes of parameters fold
    into them. The result's distribution is what a rank loads; each use may have its own. Rule: one parallel factor for
    each dimension.
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight, OptionalAttr<Tpc_ViewAttr>:$view);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$weight (`view` $view^)? attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// The view, dense if there is none. The weight op is looked up.
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
