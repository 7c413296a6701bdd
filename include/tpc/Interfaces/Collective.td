//===- Collective.td - Interface of collectives ------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_COLLECTIVE
#define TPC_INTERFACES_COLLECTIVE

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let description = [{
    An op with one operand and one result that all members of a group of ranks run together. The
    interface provides the axes of the communication and the dimensions that are split.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The axes of the group.", "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"Dimension of the operand of which each member has its own shard.",
      "std::optional<int64_t>", "getOperandSplit", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"Dimension of the result of which each member has its own shard.",
      "std::optional<int64_t>", "getResultSplit", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"Whether the op may change the split of any dimension, over any of the axes.",
      "bool", "movesAnyDim", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Whether members send only the elements that one has and another needs. If "
                    "not, the transfer is counted by the whole buffer.",
      "bool", "sendsOnlyNeeded", (ins), "", [{ return false; }]>,
    InterfaceMethod<"If so, the maximum bytes that a member sends or receives, for members at "
                    "`coordinates` on all other axes. Nothing if a size is unknown or too large.",
        "std::optional<int64_t>", "getMaxMemberBytes",
        (ins "::mlir::tpc::GridAttr":$grid,
           "const std::map<std::string, int64_t> &":$coordinates,
           "const std::map<std::string, int64_t> &":$symbols),
      "", [{ return std::nullopt; }]>
  ];
}

#endif
