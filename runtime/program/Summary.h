//===- Summary.h - One-line summary of an output --------------------------===//

#ifndef TPC_RT_PROGRAM_SUMMARY_H
#define TPC_RT_PROGRAM_SUMMARY_H

#include "program/Tensor.h"

namespace tpc::rt {

/// Returns name, type and shape. For floats, also minimum, maximum and mean of the finite elements,
/// and the number of other elements.
std::string summaryOf(const std::string &name, const Tensor &tensor);

/// Warning about NaN or infinite elements: their number and the position of the first; empty if
/// there is none. The model computed them, so they are not an error.
std::string warningOf(const std::string &name, const Tensor &tensor);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SUMMARY_H
