//===- Host.td - Ops that become calls --------------------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_HOST
#define TPC_INTERFACES_HOST

include "mlir/IR/OpBase.td"

def HostOpInterface : OpInterface<"HostOpInterface"> {
  let description = [{
    An op that is planned where it stands: a call of the runtime or of another function, or nothing but another name for memory.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether this op is one; the same op on other types may be part of a kernel.",
      "bool", "isHostOp", (ins), "", [{ return true; }]>,
    InterfaceMethod<"The operand in whose memory the result lies, or null.", "::mlir::Value", "getAliased", (ins), "",
      [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Whether it begins at the same address as that operand, and is as large.", "bool", "isSameMemory", (ins), "",
      [{ return true; }]>,
    InterfaceMethod<"Whether the results need memory of the frame.", "bool", "needsMemory", (ins), "", [{ return true; }]>,
    InterfaceMethod<"The operand whose memory the result may take over if nobody needs it any more, or null.",
      "::mlir::Value", "getReusable", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Makes the ops on buffers (see the tpc_buffer dialect). The results' memory is there, except where it is an operand's.",
      "::llvm::LogicalResult", "plan", (ins "::mlir::tpc::BufferPlanner &":$planner)>
  ];
}

#endif
