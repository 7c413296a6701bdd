//===- LargestText.h - the part of kernels that finds the largest *- C++ -*-===//
//
// Of the kernels that choose tokens, what a block does to a row of which the largest tokens are
// asked for. It keeps the row's scores; each thread reads back what it has written itself.
//
// A token with its score is a number of 63 bits, none of which are equal. The least of the largest
// is found by digits of 9 bits, from the first on: how many of those that begin alike have which
// digit is counted, and where the count from the top reaches what is needed is the next digit. That
// ends as soon as all that begin so are needed, for scores that differ after three or four digits;
// what decides among equal scores is the digits of the token.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_LARGESTTEXT_H
#define TPC_RT_CUDA_LIBRARY_LARGESTTEXT_H

#include <string>

namespace tpc::rt::cuda {

/// Declarations.
extern const char *const largestMemory;
/// What is done, from where the row's settings have been read. %best stays what nobody has.
extern const char *const findLargest;
/// In it: %value and %ranked of %token, of the score that is kept.
extern const char *const loadRanked;
/// In it: to a warp's %sum those of the warps before.
std::string addBefore();

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_LARGESTTEXT_H
