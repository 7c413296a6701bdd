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

/// Preconditions of a call.
enum Needs : unsigned {
  Nothing = 0,
  Initialized = 1,
  Current = 2 | Initialized, // a context, which has not failed
  Safe = 4,                  // not while this thread captures
};

void traceCall(const char *name, Result result);

/// Runs f(lock) under the lock if the preconditions hold.
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

/// Reports a misuse that a real driver may not detect, or that crashes it.
Result misuse(const char *call, Result result, const std::string &what);

/// Returns the object of a handle in the current context, or null.
Stream *find(Stream *handle);
Event *find(Event *handle);
Context *contextOf(DeviceNumber device);

/// Returns limits of devices of a compute capability: bytes of shared memory per block, and threads
/// per multiprocessor.
int sharedBytesOfBlock(int capability);
int threadsOfMultiprocessor(int capability);

/// Allocates device memory for a call that has checked its other arguments. Returns OUT_OF_MEMORY
/// or SUCCESS.
Result allocate(Context &context, DevicePointer *address, size_t bytes, size_t alignment,
                const std::string &name, bool ofLibrary = false);
Result release(Lock &lock, const char *name, DevicePointer address, bool ofLibrary);
std::string describeAddress(Context &context, uint64_t address);
/// Returns the bytes of the device that no process uses (Sharing.cpp).
uint64_t freeBytes(Context &context);
/// Returns the new value of `used` after an allocation of `bytes` is made or freed.
uint64_t usedWith(const Context &context, uint64_t bytes, bool isAllocated);
/// Counts an allocation of `bytes` that is made or freed.
void count(Context &context, uint64_t bytes, bool isAllocated);
/// Resets the count of used bytes.
void forgetUsed(Context &context);
/// Destroys streams, events, modules and memory of a context that is no longer retained.
void destroyAll(Context &context);

} // namespace sim

#endif
