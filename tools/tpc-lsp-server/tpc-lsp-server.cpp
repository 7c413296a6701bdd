//===- tpc-lsp-server.cpp - Language server for tpc's IR ----------------------===//

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tpc/Driver/Register.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  tpc::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
