//===- Api.h - Helpers of all entry points --------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_API_H
#define TPC_TEST_SIMULATOR_CUDA_API_H

#include "Execute.h"

#include <new>

namespace sim {

extern "C" {
#define FUNCTION(name, parameters) __attribute__((visibility("default"))) Result name parameters;
#include "Functions.def"
#undef FUNCTION
}

using Lock = std::unique_lock<std::mutex>;

/// What a call asks for before it does anything.
enum Needs : unsigned {
  Nothing = 0,
  Initialized = 1,
  Current = 2 | Initialized, // a context, which has not failed
  Safe = 4,                  // not while this thread captures
};

void traceCall(const char *name, Result result);

/// Runs f(lock) under the lock, once what it needs is there.
template <class F> Result call(const char *name, unsigned needs, F f) {
  Result result = [&]() -> Result {
    Lock lock(state().mutex);
    if ((needs & Initialized) && !state().initialized)
      return ERROR_NOT_INITIALIZED;
    if ((needs & Current) == Current) {
      Context *context = currentContext();
      if (!context || !context->active())
        return ERROR_INVALID_CONTEXT;
      if (context->failed)
        return context->failed;
    }
    if (needs & Safe)
      if (Result unsafe = checkUnsafe(name))
        return unsafe;
    try {
      return f(lock);
    } catch (const std::bad_alloc &) {
      return ERROR_OUT_OF_MEMORY;
    }
  }();
  traceCall(name, result);
  return result;
}

/// A misuse that a real driver need not notice, or answers by a crash.
Result misuse(const char *call, Result result, const std::string &what);

/// Of the handle, in the current context; null if there is none.
Stream *find(Stream *handle);
Event *find(Event *handle);
Context *contextOf(DeviceNumber device);

/// What devices of this compute capability have: bytes of shared memory for a block that asks for
/// all, threads that a multiprocessor holds.
int sharedBytesOfBlock(int capability);
int threadsOfMultiprocessor(int capability);

/// Device memory, from a call that has checked the rest: OUT_OF_MEMORY or SUCCESS.
Result allocate(Context &context, DevicePointer *address, size_t bytes, size_t alignment,
                const std::string &name, bool ofLibrary = false);
Result release(Lock &lock, const char *name, DevicePointer address, bool ofLibrary);
std::string describeAddress(Context &context, uint64_t address);
/// What processes that share a device leave: Sharing.cpp.
uint64_t freeBytes(Context &context);
/// What `used` becomes when a piece of so many bytes comes, or goes.
uint64_t usedWith(const Context &context, uint64_t bytes, bool comes);
void count(Context &context, uint64_t bytes, bool comes);
/// All is given back.
void forgetUsed(Context &context);
/// Streams, events, modules and memory of a context that nobody retains any more.
void destroyAll(Context &context);

} // namespace sim

#endif
