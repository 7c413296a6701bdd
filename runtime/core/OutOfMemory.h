//===- OutOfMemory.h - Out-of-memory error ----------------------*- C++ -*-===//

#ifndef TPC_RT_CORE_OUTOFMEMORY_H
#define TPC_RT_CORE_OUTOFMEMORY_H

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

namespace tpc::rt {

/// std::bad_alloc with a message, which states the requested bytes if they are known.
class OutOfMemory : public std::bad_alloc {
public:
  explicit OutOfMemory(std::string text) : text("out of memory: " + std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }

  static OutOfMemory ofGpu(int64_t bytes) {
    return OutOfMemory("the GPU cannot allocate " + std::to_string(bytes) +
                       " bytes; other processes may use its memory (see nvidia-smi)");
  }

private:
  std::string text;
};

/// Message of any std::bad_alloc, which libraries may throw.
inline const char *textOf(const std::bad_alloc &error) {
  return std::strcmp(error.what(), std::bad_alloc().what()) == 0 ? "out of memory" : error.what();
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_OUTOFMEMORY_H
