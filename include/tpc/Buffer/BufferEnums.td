//===- BufferEnums.td - Parameter uses, epilogues and norms ----------------===//

#ifndef TPC_BUFFER_BUFFERENUMS
#define TPC_BUFFER_BUFFERENUMS

include "mlir/IR/EnumAttr.td"

def Buffer_ParameterUse : I32EnumAttr<"ParameterUse", "use for which a parameter is loaded", [
    I32EnumAttrCase<"Packed", 0, "packed">, I32EnumAttrCase<"Dense", 1, "dense">]> {
  let cppNamespace = "::mlir::tpc::buffer";
}

def Buffer_Epilogue : I32EnumAttr<"Epilogue", "activation of a matmul after its bias", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"GeluErf", 1, "gelu_erf">,
    I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">,
    I32EnumAttrCase<"Silu", 3, "silu">, I32EnumAttrCase<"Relu", 4, "relu">]> {
  let cppNamespace = "::mlir::tpc::buffer";
}

def Buffer_Norm : I32EnumAttr<"Norm", "norm of a row", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Rms", 1, "rms_norm">,
    I32EnumAttrCase<"Layer", 2, "layer_norm">]> {
  let cppNamespace = "::mlir::tpc::buffer";
}

#endif
