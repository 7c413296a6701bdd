//===- ProductFusion.h - Matmuls with a norm and an activation --*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_PRODUCTFUSION_H
#define TPC_LIB_CONVERSION_PRODUCTFUSION_H

#include "ParameterTable.h"
#include "tpc/Buffer/Buffer.h"

namespace mlir::tpc {

/// Adjacent ops of a block that are one `tpc_buffer.fused`: a kernel that computes a norm, matmuls
/// of its result that run in one call, and a kernel that computes an activation of their results.
/// Either kernel may be missing. No other op reads the results in between.
struct ProductFusion {
  SmallVector<Operation *> ops; // in program order, with epilogues
  func::CallOp normCall, activationCall;
  buffer::Norm norm = buffer::Norm::None;
  Value source, scale, shift; // of the norm
  APFloat epsilon = APFloat(0.0);
  buffer::Epilogue activation = buffer::Epilogue::None;
  bool isGated = false; // the activation is multiplied with the result of the second matmul

  Operation *getFirst() const { return ops.front(); }
  Operation *getLast() const { return ops.back(); }
};

/// Finds the fusions of a block, if the target has them.
std::vector<ProductFusion> findProductFusions(Block &block, const ParameterTable &parameters);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_PRODUCTFUSION_H
