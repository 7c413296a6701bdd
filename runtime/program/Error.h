//===- Error.h - mistakes of whoever runs the program ---------------------===//

#ifndef TPC_RT_PROGRAM_ERROR_H
#define TPC_RT_PROGRAM_ERROR_H

#include <stdexcept>
#include <string>

namespace tpc::rt {

/// Wrong input, a missing file, …: the message says what and what to do. Thrown and caught inside
/// program/; tpc_main prints it once and returns a non-zero status.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ERROR_H
