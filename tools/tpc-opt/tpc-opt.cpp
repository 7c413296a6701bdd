//===- tpc-opt.cpp - Runs passes on tpc's IR -------------------------------===//

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tpc/Driver/Register.h"

int main(int argc, char **argv) {
  tpc::registerAllPasses();
  mlir::DialectRegistry registry;
  tpc::registerAllDialects(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "tpc's pass driver\n", registry));
}
