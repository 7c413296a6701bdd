//===- Progress.h - Progress of the compilation -----------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_PROGRESS_H
#define TPC_LIB_DRIVER_PROGRESS_H

#include "llvm/ADT/StringRef.h"

#include <chrono>
#include <string>

namespace tpc {

/// Displays the current step in one line on stderr if it is a terminal, and erases the line at the
/// end. With `timing`, prints a line for each step with its time and the peak memory so far.
class Progress {
public:
  explicit Progress(bool timing);
  ~Progress() { finish(); }

  /// Begins a step and ends the previous one.
  void step(llvm::StringRef what);
  void finish();
  /// Erases the line before other output.
  void clearLine();

private:
  using Clock = std::chrono::steady_clock;
  bool timing, terminal;
  std::string current;
  Clock::time_point start;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_PROGRESS_H
