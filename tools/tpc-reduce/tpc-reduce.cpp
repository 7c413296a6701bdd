//===- tpc-reduce.cpp - Makes failing programs small -----------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tpc/Driver/Register.h"

int main(int argc, char **argv) {
  tpc::registerAllPasses();
  mlir::DialectRegistry registry;
  tpc::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
