//===- Arithmetic.h - Opcodes of integers and floats ----------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_ARITHMETIC_H
#define TPC_TEST_SIMULATOR_PTX_ARITHMETIC_H

#include "Decoder.h"
#include "Lanes.h"

namespace ptx {

void decodeIntegerBinary(Decoder &decoder, std::string_view opcode, Type type);
void decodeIntegerUnary(Decoder &decoder, std::string_view opcode, Type type);
void decodeIntegerMad(Decoder &decoder, Type type);

/// Decodes instructions on f16, bf16 and packed pairs of them.
void decodeHalf(Decoder &decoder, std::string_view opcode, Type type);

/// Decodes div.approx and div.full, whose last bits depend on the seed.
void decodeApproximateDivision(Decoder &decoder, bool full);

} // namespace ptx

#endif
