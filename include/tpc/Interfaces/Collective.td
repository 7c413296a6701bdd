//===- Collective.td - Interface of collectives ------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_COLLECTIVE
#define TPC_INTERFACES_COLLECTIVE

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let description = [{
    Communication among the ranks of a group, with one operand and one result. The interface
    provides the axes that span the group and the dimensions that are split over them.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the grid axes that span the group.",
      "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"Returns the operand's dimension that is split over the group; nothing if "
                    "none is.",
      "std::optional<int64_t>", "getOperandSplitDim", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"Returns the result's dimension that is split over the group; nothing if none "
                    "is.",
      "std::optional<int64_t>", "getResultSplitDim", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"Whether the op may change the split of every dimension over every axis of "
                    "the group.",
      "bool", "mayChangeAnySplit", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Whether ranks send only elements that the receiver lacks. Otherwise the cost "
                    "is computed from the size of the whole buffer.",
      "bool", "sendsOnlyMissing", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Returns the maximum bytes that a member of the group sends or receives, if "
                    "`sendsOnlyMissing`. `coordinates` locate the group on all other axes. Nothing "
                    "if a size is unknown or too large.",
        "std::optional<int64_t>", "getMaxMemberBytes",
        (ins "::mlir::tpc::MeshAttr":$grid,
           "const std::map<std::string, int64_t> &":$coordinates,
           "const std::map<std::string, int64_t> &":$symbols),
      "", [{ return std::nullopt; }]>
  ];
}

#endif
