//===- RuntimeCallOp.td - Buffer ops as runtime calls ------*- tablegen -*-===//

#ifndef TPC_LIB_CONVERSION_RUNTIMECALLOP
#define TPC_LIB_CONVERSION_RUNTIMECALLOP

include "mlir/IR/OpBase.td"

def RuntimeCallOpInterface : OpInterface<"RuntimeCallOpInterface"> {
  let description = [{
    The runtime call that a buffer op becomes, or the address that it names.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Emits the code.", "void", "emit", (ins "::mlir::tpc::HostEmitter &":$emitter)>
  ];
}

#endif
