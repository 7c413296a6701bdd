//===- Error.h - Errors of the program's user -----------------------------===//

#ifndef TPC_RT_PROGRAM_ERROR_H
#define TPC_RT_PROGRAM_ERROR_H

#include <stdexcept>
#include <string>

namespace tpc::rt {

/// Invalid input, a missing file, …: the message contains the cause and the remedy. It does not
/// leave the runtime: tpc_main prints it once and returns a nonzero status, and functions of
/// tpc/session.h return a status.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_ERROR_H
