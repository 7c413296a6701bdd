//===- Passes.td - Passes that look and change nothing ----------*- tablegen -*-===//

#ifndef TPC_ANALYSIS_PASSES
#define TPC_ANALYSIS_PASSES

include "mlir/Pass/PassBase.td"

def PrintFactorClasses : Pass<"tpc-print-factor-classes", "::mlir::ModuleOp"> {
  let summary = "Print the class of every factor of every value";
  let description = [{
    One line for each value: its dimensions as lists of classes (#0, #1, ...) with their sizes,
    `!` where an op needs the class whole.
  }];
}

def PrintReport : Pass<"tpc-print-report", "::mlir::ModuleOp"> {
  let summary = "Print what a staged program communicates and holds";
  let description = [{
    What `tpcc --report` writes, for the sizes in `shape` ("batch=2,sequence=128").
    Errors: the program is not staged; a symbol has no size.
  }];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif
