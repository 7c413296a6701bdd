//===- Summary.h - what an output holds, in a line ------------------------===//

#ifndef TPC_RT_PROGRAM_SUMMARY_H
#define TPC_RT_PROGRAM_SUMMARY_H

#include "program/Tensor.h"

namespace tpc::rt {

/// Name, type, shape, and of floats the least, the largest and the mean of those that are finite,
/// and how many are not.
std::string summaryOf(const std::string &name, const Tensor &tensor);

/// What should make people look twice: that some are no numbers, how many, and where the first one
/// is. Else empty. They are what the model computes: no reason to fail.
std::string warningOf(const std::string &name, const Tensor &tensor);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SUMMARY_H
