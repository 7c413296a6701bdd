//===- Passes.td - What a program costs and holds     ----------*- tablegen -*-===//

#ifndef TPC_ANALYSIS_PASSES
#define TPC_ANALYSIS_PASSES

include "mlir/Pass/PassBase.td"

def CheckLinks : Pass<"tpc-check-links", "::mlir::ModuleOp"> {
  let summary = "Warn of tensor parallelism that reaches over the border of a node";
  let description = [{
    Reads `gpus_per_node` of the grid (without it: nothing to do), the links in `tpc.links` and the
    staged program. For each axis of tensor parallelism whose groups have members in two nodes it
    warns, with the bytes that one rank sends over them in a step, and the
    estimated seconds, at the sizes that the compiler estimates with.
    Changes nothing.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PrintFactorClasses : Pass<"tpc-print-factor-classes", "::mlir::ModuleOp"> {
  let summary = "Print the class of every factor of every value";
  let description = [{
    One line for each value: its dimensions as lists of classes (#0, #1, ...) with their sizes,
    `!` where an op needs the class whole.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PrintReport : Pass<"tpc-print-report", "::mlir::ModuleOp"> {
  let summary = "Print what a staged program communicates and holds";
  let description = [{
    What `tpcc --report` writes, for the sizes in `shape` ("batch=2,sequence=128").
    Errors: the program is not staged; a symbol has no size.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif
