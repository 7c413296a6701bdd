//===- LargestTokens.h - PTX that selects the top-scoring tokens ----------===//
//
// Code of the sampling kernels that selects the top-scoring tokens of a row. Each block writes the
// scores of its slice to memory and selects the slice's top-scoring tokens, the candidates. The
// block that finishes last selects from the candidates of all slices by the same code.
//
// A token and its score form a distinct 63-bit key. The smallest of the selected keys is found by
// radix selection on 9-bit digits, from the most significant: the keys with the current prefix are
// counted by their next digit, and the digit at which the count from the top reaches the requested
// number extends the prefix. The search ends as soon as all keys with the prefix are selected:
// after three or four digits if scores differ. Ties between equal scores are broken by the digits
// of the token. Lanes with equal digits count by one update.
//
// Keys are in shared memory: those of a slice, or up to 4096 candidates. More candidates are read
// from global memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H
#define TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H

#include <string>

namespace tpc::rt::cuda {

/// Declarations of shared memory and registers.
extern const char *const largestMemory;
/// Code that follows the computation of the scores of a quad (four adjacent tokens, see
/// SamplingKernels.cpp). %best has a value below that of every token. It ends in the block that
/// finishes last; other blocks end at DONE.
std::string findLargest();

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H
