//===- LargestTokens.h - PTX that selects the top-scoring tokens ----------===//
//
// Code of the sampling kernels by which a block selects the top-scoring tokens of its row. It
// writes the row's scores to memory; each thread reads back only what it wrote itself.
//
// A token and its score form a distinct 63-bit key. The smallest of the selected keys is found by
// radix selection on 9-bit digits, from the most significant: the keys with the current prefix are
// counted by their next digit, and the digit at which the count from the top reaches the requested
// number extends the prefix. The search ends as soon as all keys with the prefix are selected:
// after three or four digits if scores differ. Ties between equal scores are broken by the digits
// of the token.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H
#define TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H

#include <string>

namespace tpc::rt::cuda {

/// Declarations of shared memory and registers.
extern const char *const largestMemory;
/// Code that follows the loading of the row's settings. %best receives a value below that of every
/// token.
extern const char *const findLargest;
/// Subroutine of that code: sets %value and %ranked of %token from the stored score.
extern const char *const loadRanked;
/// Subroutine of that code: adds the sums of earlier warps to a warp's %sum.
std::string addBefore();

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_LARGESTTOKENS_H
