//===- KernelsImpl.h - Kernel table of one instruction set ----------------===//
//
// Included once by each Kernels*.cpp, which defines TPC_ISA, TPC_LANES and TPC_TILE_ROWS (number of
// rows of sums, two vectors wide, that fit in registers together with the operands).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_KERNELSIMPL_H
#define TPC_RT_CPU_KERNELSIMPL_H

#include "cpu/AttentionGradKernel.h"
#include "cpu/DecodeAttention.h"
#include "cpu/IntegerKernel.h"

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
    TPC_ISA::hasUnits,
    TPC_ISA::gemmQuantized,
    TPC_ISA::dequantize,
    TPC_ISA::digitFloats,
    TPC_ISA::splitDigits,
    TPC_ISA::gemmIntegers,
    TPC_ISA::attentionScratch,
    TPC_ISA::attention,
    TPC_ISA::attentionGradSizes,
    TPC_ISA::attentionGrad,
    TPC_ISA::addAttentionGrads,
    TPC_ISA::decodeScratch,
    TPC_ISA::decodedFloats,
    TPC_ISA::decode,
    TPC_ISA::mergeDecoded,
    TPC_ISA::activate,
};

} // namespace tpc::rt

#endif // TPC_RT_CPU_KERNELSIMPL_H
