//===- experts.h - Launch interface of GPU kernels of experts -------------===//
//
// Kernels for few tokens, T being f32, f16 or bf16, the type of the matrices:
//
//   tpc_experts_inner_T    a warp for each expert and inner element computes h[tokens, experts,
//                          inner] for tokens that select the expert
//   tpc_experts_outputs_T  a warp for each token and output adds the selected experts
//
// Kernels for many tokens, on the rows of each expert, which are adjacent:
//
//   tpc_experts_rows       a warp for each expert: rows[e, i], the tokens that select it, in
//                          ascending order; places[e, t], the inverse; counts[e]
//   tpc_experts_grouped_T  a block for each kTileRows rows of an expert and kBlockColumns columns
//                          (gated: half as many) of its matrix: a matmul, bias and activation
//   tpc_experts_combine    a thread for each token and output adds the selected experts
//
// Experts are added in ascending order. Elements of rows that do not exist are not written. All
// operands but the matrices are f32. Plain C++, shared by the compiler, the runtime and tests.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_EXPERTS_H
#define TPC_EXPERTS_H

#include "tpc/gemv.h"

namespace tpc::experts {

/// Rows and columns of a warp's tile; with a gate, half of the columns are the gate's.
inline constexpr int64_t kTileRows = 32, kTileColumns = 32;
inline constexpr int64_t kBlockColumns = gemv::kWarps * kTileColumns;
/// Adjacent elements of a row that a lane reads at a time.
inline constexpr int64_t kLaneElements = 8;

/// Whether grouped kernels compute these sizes: tokens share the loads of a matrix. Pointers must
/// be aligned to 16 bytes.
constexpr bool supportsGrouped(int64_t tokens, int64_t hidden, int64_t inner) {
  return tokens >= 16 && hidden % kLaneElements == 0 && inner % kLaneElements == 0;
}

} // namespace tpc::experts

#endif // TPC_EXPERTS_H
