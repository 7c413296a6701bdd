//===- routed.h - Launch interface of GPU kernels of exchanged tokens -----===//
//
// Kernels for the messages of core/RoutedRows.h. A part of a launch has `blocksPerPart` blocks of
// gemv::kThreads threads.
//
//   tpc_routed_select_N       a warp for 32 bits of a dispatch
//   tpc_routed_select_rows_N  a warp for 8 bits, each of a row of a combine
//   tpc_routed_locate         one block for each part: places and sizes
//   tpc_routed_pack_N         a warp for each row: its data
//   tpc_routed_unpack_N       a warp for each row of a dispatch
//   tpc_routed_add_T          a warp for each row of a combine; the launch has one part
//
// N is the number of bits of an element, T its type: f32, f16 or bf16. Parameters of all: tensor,
// parts, bits, places, sizes, data; then blocksPerPart, width, column, experts, numParts, combines
// as 32-bit integers. Plain C++, shared by the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ROUTED_H
#define TPC_ROUTED_H

#include <cstdint>

namespace tpc::routed {

/// Fields of a part (RoutedPart), 64-bit integers.
inline constexpr int64_t kPartFields = 7;
/// Bits and rows of a warp.
inline constexpr int64_t kWarpBits = 32, kWarpRowBits = 8;

} // namespace tpc::routed

#endif // TPC_ROUTED_H
