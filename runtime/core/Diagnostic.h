//===- Diagnostic.h - errors and notes on standard error ------------------===//
//
// Standard output may have a line that is not finished, such as the tokens so far of a prompt.
// Where both go to the same place a diagnostic begins on a line of its own.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DIAGNOSTIC_H
#define TPC_RT_CORE_DIAGNOSTIC_H

#include <string>

namespace tpc::rt {

/// Prints "error: …"; `text` may have several lines. May be called from any thread.
void printDiagnostic(const char *kind, const std::string &text);

/// Whether standard output ends in the middle of a line, and standard error goes to the same place.
bool isMidLine();
/// Standard output ends in the middle of a line, or no longer does.
void setMidLine(bool is);
/// Writes to this eventfd when that changes; -1: no longer. For one watch at a time.
void notifyMidLine(int event);
/// The same of another process of this run, whose standard output it is: rank 0's.
void setMidLineOfOther(bool is);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DIAGNOSTIC_H
