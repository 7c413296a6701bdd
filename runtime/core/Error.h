//===- Error.h - how a rank fails -----------------------------------------===//
//
// No function of the ABI returns an error. A rank that meets one calls `fail`: the first message of
// the world is kept, every rank that waits is woken, and the rank leaves by a C++ exception that
// `World::run` catches. It passes through generated frames, which is why generated functions carry
// unwind tables (`uwtable`). Where it cannot pass (a frame without tables) the terminate handler of
// World.cpp prints the kept message and ends the process: the same outcome for a program, only that
// an embedder does not get control back.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ERROR_H
#define TPC_RT_CORE_ERROR_H

#include <exception>
#include <string>

struct tpc_context;

namespace tpc::rt {

/// Unwinds a rank. `World::run` catches it; nobody else should, except to clean up and rethrow. It
/// carries nothing: the message is kept by the world.
class RankStopped : public std::exception {
public:
  const char *what() const noexcept override { return "this rank was stopped by an error"; }
};

/// Records `message` if it is the world's first, wakes everybody, and throws `RankStopped`. May be
/// called on any thread of the rank; a worker thread must let the exception end on it and have the
/// rank's thread call `fail` or return.
[[noreturn]] void fail(tpc_context &ctx, const std::string &message);

} // namespace tpc::rt

#endif // TPC_RT_CORE_ERROR_H
