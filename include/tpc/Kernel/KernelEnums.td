//===- KernelEnums.td - Reduction kinds --------------------*- tablegen -*-===//

#ifndef TPC_KERNEL_KERNELENUMS
#define TPC_KERNEL_KERNELENUMS

include "mlir/IR/EnumAttr.td"

def TpcKernel_FoldKind : I32EnumAttr<"FoldKind", "reduction function", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">,
    I32EnumAttrCase<"UMax", 3, "umax">,
    I32EnumAttrCase<"UMin", 4, "umin">,
    I32EnumAttrCase<"MaxNum", 5, "maxnum">]> {
  let cppNamespace = "::mlir::tpc::kernel";
}

#endif
