//===- Error.h - Failure of a rank ----------------------------------------===//
//
// No function of the ABI returns an error. A rank with an error calls `fail`. The world stores the
// first message, all waiting ranks wake up, and the rank unwinds by a C++ exception that
// `World::run` catches. The exception passes through generated frames, so generated functions carry
// unwind tables (`uwtable`). If it cannot pass (a frame without tables), the terminate handler of
// World.cpp prints the stored message and ends the process. For a program the outcome is the same;
// a process that embeds the model is ended.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ERROR_H
#define TPC_RT_CORE_ERROR_H

#include <exception>
#include <string>

struct tpc_context;

namespace tpc::rt {

/// Unwinds a rank. `World::run` and the memory estimate catch it; other code may catch it only to
/// clean up and rethrow. It has no data: the world stores the message.
class RankStopped : public std::exception {
public:
  const char *what() const noexcept override { return "this rank was stopped by an error"; }
};

/// Records `message` if it is the world's first, wakes all waiting ranks, and throws `RankStopped`.
/// Any thread of the rank may call it. A worker thread must catch the exception and let the rank's
/// thread call `fail` or return.
[[noreturn]] void fail(tpc_context &ctx, const std::string &message);

} // namespace tpc::rt

#endif // TPC_RT_CORE_ERROR_H
