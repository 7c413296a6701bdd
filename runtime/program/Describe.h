//===- Describe.h - what a program is, from its manifest ------------------===//

#ifndef TPC_RT_PROGRAM_DESCRIBE_H
#define TPC_RT_PROGRAM_DESCRIBE_H

#include "program/Manifest.h"

namespace tpc::rt {

/// For people.
std::string describe(const Manifest &manifest);
/// The same, and each parameter's bytes per rank, as JSON.
std::string describeJson(const Manifest &manifest);

/// What an input that has a default is when it is left out, in words.
std::string defaultText(const Port &port, const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_DESCRIBE_H
