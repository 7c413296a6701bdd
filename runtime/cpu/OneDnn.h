//===- OneDnn.h - Declarations of the oneDNN functions in use -------------===//
//
// oneDNN 3 (libdnnl.so.3) can compute f32 matmuls: --products=onednn. It is loaded on demand, so
// nothing is linked or built against it: this file declares its C functions. test/OneDnnTest.cpp
// compares them with the vendor's header where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_ONEDNN_H
#define TPC_RT_CPU_ONEDNN_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace tpc::rt::onednn {

struct Attributes;
struct Engine;
struct Memory;
struct MemoryDesc;
struct Primitive;
struct PrimitiveDesc;
struct Stream;

struct Version {
  int major, minor, patch;
  const char *hash;
  unsigned cpuRuntime, gpuRuntime;
};
struct Argument {
  int index;
  Memory *memory;
};

// Enumerators of the library that this runtime uses.
using Enum = int32_t;
constexpr Enum success = 0;
constexpr Enum cpuEngine = 1;
constexpr unsigned inOrderStream = 1;
constexpr Enum f32 = 3;
constexpr Enum anyTag = 1;
constexpr Enum userScratchpad = 1;
constexpr Enum strictMath = 0;
constexpr Enum queryWeights = 131, queryScratchpad = 136;
constexpr int source = 1, weights = 33, destination = 17, scratchpad = 80;
constexpr unsigned sequential = 1, openMp = 2, threadPool = 8; // Version::cpuRuntime

/// FUNCTION(name, result, arguments)
#define TPC_ONEDNN_FUNCTIONS(FUNCTION)                                                             \
  FUNCTION(version, const Version *, ())                                                           \
  FUNCTION(get_effective_cpu_isa, Enum, ())                                                        \
  FUNCTION(engine_create, Enum, (Engine **, Enum, size_t))                                         \
  FUNCTION(stream_create, Enum, (Stream **, Engine *, unsigned))                                   \
  FUNCTION(stream_destroy, Enum, (Stream *))                                                       \
  FUNCTION(stream_wait, Enum, (Stream *))                                                          \
  FUNCTION(memory_desc_create_with_strides, Enum,                                                  \
           (MemoryDesc **, int, const int64_t *, Enum, const int64_t *))                           \
  FUNCTION(memory_desc_create_with_tag, Enum, (MemoryDesc **, int, const int64_t *, Enum, Enum))   \
  FUNCTION(memory_desc_destroy, Enum, (MemoryDesc *))                                              \
  FUNCTION(memory_desc_get_size, size_t, (const MemoryDesc *))                                     \
  FUNCTION(memory_create, Enum, (Memory **, const MemoryDesc *, Engine *, void *))                 \
  FUNCTION(memory_destroy, Enum, (Memory *))                                                       \
  FUNCTION(primitive_attr_create, Enum, (Attributes **))                                           \
  FUNCTION(primitive_attr_set_scratchpad_mode, Enum, (Attributes *, Enum))                         \
  FUNCTION(primitive_attr_set_fpmath_mode, Enum, (Attributes *, Enum))                             \
  FUNCTION(matmul_primitive_desc_create, Enum,                                                     \
           (PrimitiveDesc **, Engine *, const MemoryDesc *, const MemoryDesc *,                    \
            const MemoryDesc *, const MemoryDesc *, const Attributes *))                           \
  FUNCTION(reorder_primitive_desc_create, Enum,                                                    \
           (PrimitiveDesc **, const MemoryDesc *, Engine *, const MemoryDesc *, Engine *,          \
            const Attributes *))                                                                   \
  FUNCTION(primitive_desc_query_md, const MemoryDesc *, (const PrimitiveDesc *, Enum, int))        \
  FUNCTION(primitive_desc_destroy, Enum, (PrimitiveDesc *))                                        \
  FUNCTION(primitive_create, Enum, (Primitive **, const PrimitiveDesc *))                          \
  FUNCTION(primitive_destroy, Enum, (Primitive *))                                                 \
  FUNCTION(primitive_execute, Enum, (const Primitive *, Stream *, int, const Argument *))

/// oneDNN library of this process, once loaded.
struct Library {
#define TPC_DECLARE_POINTER(name, result, arguments) result(*name) arguments = nullptr;
  TPC_ONEDNN_FUNCTIONS(TPC_DECLARE_POINTER)
#undef TPC_DECLARE_POINTER
  /// Null if the library has no threads of its own.
  void (*setThreads)(int) = nullptr;
  Engine *engine = nullptr;
  Attributes *attributes = nullptr; ///< default attributes: no approximations, caller-provided
                                    ///< scratchpads

  /// "oneDNN 3.2.0 (isa 0x7)"
  std::string describe() const;
  /// Loads the library on the first call. Returns null, with the reason in `problem`, if it is
  /// unusable.
  static const Library *load(std::string &problem);
};

} // namespace tpc::rt::onednn

#endif // TPC_RT_CPU_ONEDNN_H
