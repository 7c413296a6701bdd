//===- Host.td - Interface of ops that become runtime calls ---------------===//

#ifndef TPC_INTERFACES_HOST
#define TPC_INTERFACES_HOST

include "mlir/IR/OpBase.td"

def HostOpInterface : OpInterface<"HostOpInterface"> {
  let description = [{
    An op that is lowered to a runtime call, to a call of another function, or to an alias of its
    operand's memory.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether this op, with its types, is a host op; else it is fused into a "
                    "kernel.",
      "bool", "isHostOp", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Returns the operand whose memory the result aliases, or null.",
      "::mlir::Value", "getAliased", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Whether the result has the same address and size as the aliased operand.",
      "bool", "isSameMemory", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Whether the results are allocated in the frame.",
      "bool", "needsMemory", (ins), "", [{ return true; }]>,
    InterfaceMethod<"Returns the operand whose memory the result may reuse if the operand is dead, "
                    "or null.",
      "::mlir::Value", "getReusable", (ins), "", [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Creates the buffer ops (tpc_buffer dialect). Memory of results that do not "
                    "alias an operand is already allocated.",
      "::llvm::LogicalResult", "plan", (ins "::mlir::tpc::BufferPlanner &":$planner)>
  ];
}

#endif
