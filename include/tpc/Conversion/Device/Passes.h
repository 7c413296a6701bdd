//===- Passes.h - Device-independent passes on kernel code ------*- C++ -*-===//

#ifndef TPC_CONVERSION_DEVICE_PASSES_H
#define TPC_CONVERSION_DEVICE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tpc/Conversion/Device/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_PASSES_H
