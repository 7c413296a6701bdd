//===- Register.h - Registration of dialects, passes and translations -----===//
//
// Register.cpp and RegisterPasses.cpp are the single list of dialects, passes and pipelines.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DRIVER_REGISTER_H
#define TPC_DRIVER_REGISTER_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace tpc {

/// Registers the targets of the compiler. registerAllDialects calls it.
void registerTargets();

/// Registers tpc's dialects, the upstream dialects that its programs use, and their extensions.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers tpc's passes and pipelines, and upstream's clean-up passes. Callers link TPCMutate
/// too.
void registerAllPasses();

/// Registers the translations of tpc-translate, such as `--import-onnx`.
void registerAllTranslations();

} // namespace tpc

#endif // TPC_DRIVER_REGISTER_H
