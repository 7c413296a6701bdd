//===- Passes.td - Analysis passes -------------------------*- tablegen -*-===//

#ifndef TPC_ANALYSIS_PASSES
#define TPC_ANALYSIS_PASSES

include "mlir/Pass/PassBase.td"

def CheckLinks : Pass<"tpc-check-links", "::mlir::ModuleOp"> {
  let summary = "Warn of a view whose groups span several nodes";
  let description = [{
    Reads the mesh's `gpus_per_node` (no-op without it), the links in `tpc.links` and the staged
    program. For each atom of `view` whose groups span several nodes, the pass emits a warning with
    the bytes that one rank sends along the atom per step and the estimated seconds, at nominal
    sizes. tpcc runs it for tp, whose collectives block several times in each layer. Does not change
    the module.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
  let options = [Option<"view", "view", "std::string", /*default=*/"",
                        "View whose groups should be within nodes, such as tp">];
}

def PrintFactorClasses : Pass<"tpc-print-factor-classes", "::mlir::ModuleOp"> {
  let summary = "Print the class of every factor of every value";
  let description = [{
    Prints one line for each value: its dimensions as lists of classes (#0, #1, ...) with their
    sizes. `!` marks a class that cannot be split because of an op.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PrintReport : Pass<"tpc-print-report", "::mlir::ModuleOp"> {
  let summary = "Print the communication and memory of a staged program";
  let description = [{
    Prints the output of `tpcc --report`, for the sizes in `shape` ("batch=2,sequence=128").
    Errors: the program is not staged; a symbol has no size.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"json", "json", "bool", "false", "As JSON, not as text">];
}

#endif
