//===- tpc-reduce.cpp - Reduction of failing programs ----------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tpc/Driver/Register.h"
#include "tpc/Driver/ToolOutput.h"

int main(int argc, char **argv) {
  if (!tpc::checkToolFiles("tpc-reduce", argc, argv))
    return 1;
  tpc::registerAllPasses();
  mlir::DialectRegistry registry;
  tpc::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::LogicalResult result = mlir::mlirReduceMain(argc, argv, context);
  return tpc::finishToolOutput("tpc-reduce", mlir::failed(result));
}
