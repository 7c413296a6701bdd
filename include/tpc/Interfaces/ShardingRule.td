//===- ShardingRule.td - Interface of sharding rules -------*- tablegen -*-===//

#ifndef TPC_INTERFACES_SHARDINGRULE
#define TPC_INTERFACES_SHARDINGRULE

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let description = [{
    The single definition of how the dimensions of an op's operands and results are related (see
    `ShardingRule`). The verifier of distributed types, factor classes, propagation, reshards, local
    types and costs use only this.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The rule, in terms of the global sizes of the operands and results.",
      "::mlir::tpc::ShardingRule", "getShardingRule">,
    InterfaceMethod<"Floating-point operations per point of the rule's iteration space (the "
                    "product of all factors).",
      "double", "getFlopsPerPoint", (ins), "", [{ return 1.0; }]>,
    InterfaceMethod<"For an op with a permuted factor: builds the collective over `axes` that "
                    "replaces the op where they split its runs. At most one factor of a rule is "
                    "permuted.",
        "::mlir::Value", "buildPermute",
        (ins "::mlir::OpBuilder &":$builder, "::mlir::ArrayAttr":$axes), "", [{
        llvm_unreachable("no factor is permuted");
      }]>
  ];
  let verify = [{ return ::mlir::tpc::verifyDistribution($_op); }];
  let verifyWithRegions = 0;
}

#endif
