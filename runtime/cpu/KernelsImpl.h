//===- KernelsImpl.h - the table of one instruction set -------------------===//
//
// Included once by each Kernels*.cpp, which defines TPC_ISA, TPC_LANES and TPC_TILE_ROWS (how many
// rows of sums, two vectors wide, fit in the registers with room for the operands).
//
//===----------------------------------------------------------------------===//

#include "cpu/DecodeAttention.h"

namespace tpc::rt {

extern const KernelTable TPC_TABLE;
const KernelTable TPC_TABLE = {
    TPC_NAME,
    TPC_ISA::panelWidth,
    TPC_ISA::maxTileRows,
    TPC_ISA::queryBlock,
    TPC_ISA::gemm,
    TPC_ISA::packTransposed,
    TPC_ISA::gemmTransposed,
    TPC_ISA::attentionScratch,
    TPC_ISA::attention,
    TPC_ISA::decodeScratch,
    TPC_ISA::decodedFloats,
    TPC_ISA::decode,
    TPC_ISA::mergeDecoded,
    TPC_ISA::activate,
};

} // namespace tpc::rt
