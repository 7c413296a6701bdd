//===- tpc-translate.cpp - From and to other formats -----------------------===//

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "tpc/Driver/Register.h"

int main(int argc, char **argv) {
  tpc::registerAllTranslations();
  return mlir::failed(mlir::mlirTranslateMain(argc, argv, "tpc's translation driver"));
}
