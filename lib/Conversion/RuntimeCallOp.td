//===- RuntimeCallOp.td - Ops on buffers as calls ---------------*- tablegen -*-===//

#ifndef TPC_LIB_CONVERSION_RUNTIMECALLOP
#define TPC_LIB_CONVERSION_RUNTIMECALLOP

include "mlir/IR/OpBase.td"

def RuntimeCallOpInterface : OpInterface<"RuntimeCallOpInterface"> {
  let description = [{
    An op on buffers: the call of the runtime that it stands for, or the address that it names.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Emits the code.", "void", "emit", (ins "::mlir::tpc::HostEmitter &":$emitter)>
  ];
}

#endif
