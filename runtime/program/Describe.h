//===- Describe.h - Description of a program from its manifest ------------===//

#ifndef TPC_RT_PROGRAM_DESCRIBE_H
#define TPC_RT_PROGRAM_DESCRIBE_H

#include "program/Manifest.h"

namespace tpc::rt {

/// Returns a human-readable description.
std::string describe(const Manifest &manifest);
/// Returns the same as JSON, with each parameter's bytes per rank.
std::string describeJson(const Manifest &manifest);

/// Describes an input's default.
std::string defaultText(const Port &port, const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_DESCRIBE_H
