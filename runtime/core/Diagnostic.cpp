//===- Diagnostic.cpp - Errors and notes on standard error ----------------===//

#include "core/Diagnostic.h"
#include "tpc/printable.h"
#include <atomic>
#include <cstdio>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tpc::rt {

namespace {

std::atomic<bool> isOwn{false}, isOfOther{false};
std::atomic<int> listener{-1};

bool haveSameTarget() {
  struct stat out{}, err{};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

} // namespace

void printDiagnostic(const char *kind, const std::string &text) {
  bool begins = isMidLine();
  setMidLine(false);
  begins |= isOfOther.exchange(false);
  std::fprintf(stderr, "%s%s: %s\n", begins ? "\n" : "", kind,
               printable(text, /*lines=*/true).c_str());
  std::fflush(stderr);
}

bool isMidLine() { return isOwn.load() && haveSameTarget(); }
void setMidLine(bool is) {
  int event = listener.load();
  if (isOwn.exchange(is) != is && event >= 0)
    eventfd_write(event, 1);
}
void notifyMidLine(int event) { listener.store(event); }
void setMidLineOfOther(bool is) { isOfOther.store(is); }

} // namespace tpc::rt
