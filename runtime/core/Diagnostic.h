//===- Diagnostic.h - Errors and notes on standard error ------------------===//
//
// Standard output may end in an incomplete line, such as the first tokens of an answer. If both
// streams go to the same terminal or file, a diagnostic starts on a line of its own.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DIAGNOSTIC_H
#define TPC_RT_CORE_DIAGNOSTIC_H

#include <string>

namespace tpc::rt {

/// Prints "error: …"; `text` may have several lines. May be called from any thread.
void printDiagnostic(const char *kind, const std::string &text);

/// Whether standard output ends in the middle of a line, and standard error goes to the same file
/// or terminal.
bool isMidLine();
/// Sets whether standard output ends in the middle of a line.
void setMidLine(bool is);
/// Sets an eventfd that is signaled whenever setMidLine changes the state; -1: none. Only one
/// watchdog may use it.
void notifyMidLine(int event);
/// Sets whether the standard output of rank 0's process, which the whole run shares, ends in the
/// middle of a line.
void setMidLineOfOther(bool is);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DIAGNOSTIC_H
