//===- Collective.td - What ranks do together -------------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_COLLECTIVE
#define TPC_INTERFACES_COLLECTIVE

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let description = [{
    An op with one operand and one result that all members of a group of ranks run together. Whoever
    asks "is this communication, over which axes, and which dimension is in parts?" reads this.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The axes of the group.", "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"The dimension of the operand of which each member has its own part.",
      "std::optional<int64_t>", "getOperandSplit", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"The same of the result.",
      "std::optional<int64_t>", "getResultSplit", (ins), "", [{ return std::nullopt; }]>
  ];
}

#endif
