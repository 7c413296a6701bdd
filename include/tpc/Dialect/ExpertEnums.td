//===- ExpertEnums.td - Activations of experts -------------*- tablegen -*-===//

#ifndef TPC_DIALECT_EXPERTENUMS
#define TPC_DIALECT_EXPERTENUMS

include "mlir/IR/EnumAttr.td"

// The numbers are those of tpc_epilogue in tpc/runtime.h.
def Tpc_ExpertActivation : I32EnumAttr<"ExpertActivation", "activation of an expert", [
    I32EnumAttrCase<"Identity", 0, "identity">, I32EnumAttrCase<"GeluErf", 1, "gelu_erf">,
    I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">, I32EnumAttrCase<"Silu", 3, "silu">,
    I32EnumAttrCase<"Relu", 4, "relu">]> {
  let cppNamespace = "::mlir::tpc";
}

#endif
