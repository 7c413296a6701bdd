//===- standard_output.h - End of output on standard output ---------------===//

#ifndef TPC_STANDARD_OUTPUT_H
#define TPC_STANDARD_OUTPUT_H

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tpc {

/// Flushes standard output, at the end of main. Returns `status`; if output was lost, prints an
/// error and returns 1.
inline int finishStandardOutput(const char *tool, int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return status;
  std::fprintf(stderr, "%s: error: cannot write to standard output: %s\n", tool,
               std::strerror(errno ? errno : EIO));
  return 1;
}

} // namespace tpc

#endif // TPC_STANDARD_OUTPUT_H
