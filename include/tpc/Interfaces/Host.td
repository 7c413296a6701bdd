//===- Host.td - Interface of ops that become runtime calls ---------------===//

#ifndef TPC_INTERFACES_HOST
#define TPC_INTERFACES_HOST

include "mlir/IR/OpBase.td"

def HostOpInterface : OpInterface<"HostOpInterface"> {
  let description = [{
    An op that becomes a runtime call, a call of another function, or an alias of memory.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether this op is a host op; with other types it may be fused into a kernel.",
      "bool", "isHostOp", (ins), "", [{ return true; }]>,
    InterfaceMethod<"The operand whose memory the result aliases, or null.",
      "::mlir::Value", "getAliased", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Whether the result has the address and size of that operand.",
      "bool", "isSameMemory", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Whether the results need memory of the frame.",
      "bool", "needsMemory", (ins), "", [{ return true; }]>,
    InterfaceMethod<"The operand whose memory the result may reuse if the operand is dead, or "
                    "null.",
      "::mlir::Value", "getReusable", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Creates the ops on buffers (see the tpc_buffer dialect). The results' memory "
                    "is already allocated, unless it is an operand's.",
      "::llvm::LogicalResult", "plan", (ins "::mlir::tpc::BufferPlanner &":$planner)>
  ];
}

#endif
