//===- Passes.td - Passes that run other pass pipelines ----*- tablegen -*-===//

#ifndef TPC_DRIVER_PASSES
#define TPC_DRIVER_PASSES

include "mlir/Pass/PassBase.td"

def Explain : Pass<"tpc-explain", "::mlir::ModuleOp"> {
  let summary = "Print what each tactic of --megatron-shard splits, communicates and saves";
  let description = [{
    Runs on a module of the model level and leaves it unchanged. Applies the tactics of `shard` one
    after the other. After each, a copy of the program is compiled through all levels, and its
    report is compared with the previous one: the new splits, the additional collectives and bytes
    per axis in one step of one rank of each stage, and the peak bytes of the rank with the most.
    Sizes without a value in `shape` are nominal: one sample for each replica and micro-batch, 128
    for any other.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"shard", "shard", "std::string", "", "Value of --megatron-shard">,
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif // TPC_DRIVER_PASSES
