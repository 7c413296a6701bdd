//===- Passes.td - Passes that run others -----------------------*- tablegen -*-===//

#ifndef TPC_DRIVER_PASSES
#define TPC_DRIVER_PASSES

include "mlir/Pass/PassBase.td"

def Explain : Pass<"tpc-explain", "::mlir::ModuleOp"> {
  let summary = "Print what each tactic of --megatron-shard splits, communicates and saves";
  let description = [{
    Works on the model level, which stays as it is. The tactics that `shard` stands for run one after the
    other; after each, a copy of the program goes through all levels, and its report is
    compared with the one before: what was split, which collectives and bytes per axis one
    step of one rank of each stage has more, and the bytes that the fullest rank
    holds at once. Sizes that `shape` does not give are nominal: one sample for each
    replica and micro-batch, 128 of anything else.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"shard", "shard", "std::string", "", "What --megatron-shard takes">,
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif // TPC_DRIVER_PASSES
