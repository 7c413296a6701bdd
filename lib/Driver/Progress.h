//===- Progress.h - What the compiler is doing just now --------------------===//

#ifndef TPC_LIB_DRIVER_PROGRESS_H
#define TPC_LIB_DRIVER_PROGRESS_H

#include "llvm/ADT/StringRef.h"

#include <chrono>
#include <string>

namespace tpc {

/// On a terminal, one line on stderr says what is going on, and is gone at the end. With `timing`,
/// instead, each step leaves a line with its time and the peak of memory so far.
class Progress {
public:
  explicit Progress(bool timing);
  ~Progress() { finish(); }

  /// Begins a step, and so ends the one before.
  void step(llvm::StringRef what);
  void finish();
  /// Before something else is printed.
  void clearLine();

private:
  using Clock = std::chrono::steady_clock;
  bool timing, terminal;
  std::string current;
  Clock::time_point start;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_PROGRESS_H
