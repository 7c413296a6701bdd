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
      "std::optional<int64_t>", "getResultSplit", (ins), "", [{ return std::nullopt; }]>,
    InterfaceMethod<"Whether members may have parts of any dimension, over any of the axes, before and after.",
      "bool", "movesAnyDim", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Whether members send each other only what one has and another needs. If not, what counts is the whole buffer.",
      "bool", "sendsPieces", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Where they do: the bytes of the member that sends or gets most, for members that are at `coordinates` on "
      "all other axes. Nothing if a size is not known or too large.",
      "std::optional<int64_t>", "getPieceBytes", (ins "::mlir::tpc::GridAttr":$grid,
        "const std::map<std::string, int64_t> &":$coordinates, "const std::map<std::string, int64_t> &":$symbols),
      "", [{ return std::nullopt; }]>
  ];
}

#endif
