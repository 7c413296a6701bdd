//===- Api.h - Helpers of NCCL's entry points -----------------------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_API_H
#define TPC_TEST_SIMULATOR_NCCL_API_H

#include "Comm.h"
#include "Functions.h"

namespace sim::nccl {

extern "C" {
#define FUNCTION(result, name, parameters)                                                         \
  __attribute__((visibility("default"))) result name parameters;
#include "Functions.def"
#undef FUNCTION
}

Status misuse(const char *call, Status status, const std::string &what);
/// Returns the communicator of a live handle, or null.
CommRef find(Comm *handle);
Comm *add(const CommRef &comm);
void remove(Comm &comm);

/// A call of a thread since ncclGroupStart.
struct Pending {
  CommRef comm;
  Stream *stream = nullptr;
  Call call;
};
struct ThreadGroup {
  int depth = 0;
  Status status = Success; // first error
  std::vector<Pending> calls;
  std::vector<CommRef> joining;
};
ThreadGroup &threadGroup();

} // namespace sim::nccl

#endif
