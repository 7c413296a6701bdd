//===- HostModels.h - Ops that become calls ---------------------*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_HOSTMODELS_H
#define TPC_LIB_CONVERSION_HOSTMODELS_H

#include "HostEmitter.h"

namespace mlir::tpc {

void attachComputeModels(MLIRContext *context);
void attachCommunicationModels(MLIRContext *context);
void attachStageModels(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_HOSTMODELS_H
