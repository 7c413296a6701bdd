//===- Target.h - The CPU target --------------------------------*- C++ -*-===//

#ifndef TPC_CONVERSION_CPU_TARGET_H
#define TPC_CONVERSION_CPU_TARGET_H

namespace mlir::tpc {

/// Registers the target `cpu`.
void registerCpuTarget();

} // namespace mlir::tpc

#endif // TPC_CONVERSION_CPU_TARGET_H
