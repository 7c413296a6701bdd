//===- Trail.h - what a GPU was called for -------------------------------===//
//
// Errors of a GPU show at some later call. So each thread keeps what it has called for since it
// last saw all of it done, as far as a message about an error needs it. Where CUDA_LAUNCH_BLOCKING
// is set to anything but 0, as debuggers of CUDA know it, each call is waited for, and an error is
// that of its call.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_TRAIL_H
#define TPC_RT_CUDA_LIBRARY_TRAIL_H

#include "cuda/library/Driver.h"
#include <array>

namespace tpc::rt::cuda {

class Trail {
public:
  struct Call {
    const char *what, *name;      ///< "kernel", and which; `name` may be null
    std::array<int64_t, 3> sizes; ///< of a product; zeros: none
    std::string describe() const;
  };

  /// This thread has called for it, in `stream`.
  static void add(const Driver &driver, Stream stream, const char *what, const char *name = nullptr,
                  std::array<int64_t, 3> sizes = {});
  /// Whether each call is waited for.
  static bool isBlocking();
  /// All is done.
  static void clear();
  /// ", in kernel 'x'", or in which calls an error may have come about; empty: in none.
  static std::string describe();
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_TRAIL_H
