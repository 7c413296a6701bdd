//===- tpc-translate.cpp - Translations from and to other formats ---------===//

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "tpc/Driver/Register.h"
#include "tpc/Driver/ToolOutput.h"

int main(int argc, char **argv) {
  if (!tpc::checkToolFiles("tpc-translate", argc, argv))
    return 1;
  tpc::registerAllTranslations();
  mlir::LogicalResult result = mlir::mlirTranslateMain(argc, argv, "tpc's translation driver");
  return tpc::finishToolOutput("tpc-translate", mlir::failed(result));
}
