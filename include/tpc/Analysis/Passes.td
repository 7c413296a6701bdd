//===- Passes.td - Passes that look and change nothing ----------*- tablegen -*-===//

#ifndef TPC_ANALYSIS_PASSES
#define TPC_ANALYSIS_PASSES

include "mlir/Pass/PassBase.td"

def Evaluate : Pass<"tpc-evaluate", "::mlir::ModuleOp"> {
  let summary = "Run a program on paper and compare with the last time";
  let description = [{
    For tests of passes: evaluates the program for the sizes in `shape`, in double precision, with made-up
    weights and inputs that depend on names and indices alone. The first time the outputs are
    recorded (`tpc.inputs`, `tpc.expected` on the module); from then on they must
    be the same:

        tpc-opt model.mlir --tpc-evaluate=shape=batch=2,sequence=5
            --tpc-assign-shardings=shard=tp3 ... --tpc-evaluate=shape=batch=2,sequence=5

    Programs of all stages up to staged: global ones as they are, local ones on all ranks of the
    grid, which communicate as their types say.

    Errors: an output differs, or a part of it is missing; ranks disagree on replicated values;
    a rank waits for one that does not take part; a message is not sent or not received.
  }];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"tolerance", "tolerance", "double", "1.0e-9", "Largest difference, relative to the largest value">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

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
