//===- Passes.td - Passes that run other pass pipelines ----*- tablegen -*-===//

#ifndef TPC_DRIVER_PASSES
#define TPC_DRIVER_PASSES

include "mlir/Pass/PassBase.td"

def Explain : Pass<"tpc-explain", "::mlir::ModuleOp"> {
  let summary = "Print the splits, collectives and peak memory that each tactic of "
                "--megatron-shard adds";
  let description = [{
    Runs on a module of the model level and leaves it unchanged. Applies the tactics of `shard` one
    after the other. After each tactic, a copy of the program is compiled up to the staged level,
    and its report is compared with the previous one. Prints the new splits, the additional
    collectives and bytes per axis in one step of one rank of each stage, and the peak bytes of the
    rank with the most. Symbols without a value in `shape` have nominal values: one sample for each
    replica and micro-batch, 128 for any other symbol.

    With `why=fc2`, prints instead why the values of one ONNX node (or one value, weight, input or
    output) are sharded the way they are: for each split, the tactic and the chain of ops from the
    value to the op where the tactic started.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"shard", "shard", "::tpc::ShardSpec", "", "Value of --megatron-shard">,
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"why", "why", "std::string", "", "ONNX name whose values are explained">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif // TPC_DRIVER_PASSES
