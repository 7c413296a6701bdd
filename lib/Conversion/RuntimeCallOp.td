//===- RuntimeCallOp.td - Buffer ops as runtime calls ------*- tablegen -*-===//

#ifndef TPC_LIB_CONVERSION_RUNTIMECALLOP
#define TPC_LIB_CONVERSION_RUNTIMECALLOP

include "mlir/IR/OpBase.td"

def RuntimeCallOpInterface : OpInterface<"RuntimeCallOpInterface"> {
  let description = [{
    A buffer op that is lowered to a runtime call, or to the address of a buffer.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Emits the lowered code.",
      "void", "emit", (ins "::mlir::tpc::HostEmitter &":$emitter)>
  ];
}

#endif
