//===- ShardingRule.td - Interface of sharding rules -------*- tablegen -*-===//

#ifndef TPC_INTERFACES_SHARDINGRULE
#define TPC_INTERFACES_SHARDINGRULE

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let description = [{
    Relates the dimensions of an op's operands and results (see `ShardingRule.h`). This is the
    single source of truth for the verifier of distributed types, for factor classes, propagation,
    reshards, local types and costs.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the rule, in terms of global sizes.",
      "::mlir::tpc::ShardingRule", "getShardingRule">,
    InterfaceMethod<"Returns the floating-point operations per point of the rule's iteration space "
                    "(the product of all factors).",
      "double", "getFlopsPerPoint", (ins), "", [{ return 1.0; }]>,
    InterfaceMethod<"Builds the collective over `axes` that replaces the op if `axes` split the "
                    "runs of its permuted factor. A rule has at most one permuted factor.",
        "::mlir::Value", "buildPermute",
        (ins "::mlir::OpBuilder &":$builder, "::mlir::ArrayAttr":$axes), "", [{
        llvm_unreachable("no factor is permuted");
      }]>
  ];
  let verify = [{ return ::mlir::tpc::verifyDistribution($_op); }];
  let verifyWithRegions = 0;
}

#endif
