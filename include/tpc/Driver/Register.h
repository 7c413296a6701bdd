//===- Register.h - Everything that tpc's tools know -----------------------===//
//
// The one place that lists dialects, passes and pipelines. A library that has some adds its line to
// Register.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DRIVER_REGISTER_H
#define TPC_DRIVER_REGISTER_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace tpc {

/// The targets that programs can be compiled for; registerAllDialects does so too.
void registerTargets();

/// Our own dialects, those of upstream that our programs use, and the extensions that they need.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Our own passes and pipelines, and upstream's clean-up passes.
void registerAllPasses();

/// `--import-onnx` and its like, for tpc-translate.
void registerAllTranslations();

} // namespace tpc

#endif // TPC_DRIVER_REGISTER_H
