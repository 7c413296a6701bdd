/* Kernels of a program that are for GPUs: what the compiled object has of them beside the host's
 * functions. Part of the interface of runtime.h, and of its version; a header of its own because
 * few read it. */
#ifndef TPC_GPU_H
#define TPC_GPU_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How rows and threads belong together: docs/design/gpu-kernels.md, "Thread mapping". */
typedef enum {
  TPC_GPU_ELEMENTS = 0,
  TPC_GPU_WARP_PER_ROW = 1,
  TPC_GPU_BLOCK_PER_ROW = 2,
  TPC_GPU_ROW_BY_LENGTH = 3,
  TPC_GPU_TILES = 4,
  TPC_GPU_ATTENTION = 5 /* other parameters, and a grid by the call's sizes: tpc/attention.h */
} tpc_gpu_shape;
enum {
  TPC_GPU_TILE = 32,     /* rows, and elements, that a block does at a time in tiles */
  TPC_GPU_LONG_ROW = 256 /* rows that are longer are a block's, and not a warp's */
};

/* A size that follows from the env of kernels, as the host has it. */
typedef int64_t (*tpc_size_fn)(const int64_t *env);

/* An entry point of the code: NAME(env, status, operands...), all of them addresses in global
 * memory; `operands` is how many of the latter it takes. A kernel is right for any grid of blocks
 * of `threads` threads; the rest says what is a good one. `elements_per_row`: those that threads
 * share, of which one does `elements_per_thread` at a time. `largest_extent`: indices are 32 bits,
 * so that it must be less than 2^31. `dynamic_shared_bytes`: that a launch gives. */
#define TPC_GPU_KERNEL_FIELDS(FIELD)                                                               \
  FIELD(const char *, name)                                                                        \
  FIELD(tpc_size_fn, elements_per_row)                                                             \
  FIELD(tpc_size_fn, largest_extent)                                                               \
  FIELD(int32_t, shape)                                                                            \
  FIELD(int32_t, threads)                                                                          \
  FIELD(int32_t, elements_per_thread)                                                              \
  FIELD(int32_t, operands)                                                                         \
  FIELD(int32_t, dynamic_shared_bytes)
typedef struct {
  TPC_GPU_KERNEL_FIELDS(TPC_DECLARE_FIELD)
} tpc_gpu_kernel;

/* The code as machine code of one architecture (90: sm_90), which later ones of the same family
 * run as well. */
#define TPC_GPU_CUBIN_FIELDS(FIELD)                                                                \
  FIELD(const void *, data)                                                                        \
  FIELD(int64_t, bytes)                                                                            \
  FIELD(int32_t, architecture)
typedef struct {
  TPC_GPU_CUBIN_FIELDS(TPC_DECLARE_FIELD)
} tpc_gpu_cubin;

/* A variant of attention that the program has (tpc/attention.h): its kernels, by their places, and
 * what tells it from others. element, bias, slopes: tpc_dtype; -1: there is none. The last eight
 * are truth values; library: a vendor's library may compute it instead (gpu-kernels.md). */
#define TPC_GPU_ATTENTION_FIELDS(FIELD)                                                            \
  FIELD(int32_t, tiles)                                                                            \
  FIELD(int32_t, split)                                                                            \
  FIELD(int32_t, combine)                                                                          \
  FIELD(int32_t, element)                                                                          \
  FIELD(int32_t, bias)                                                                             \
  FIELD(int32_t, slopes)                                                                           \
  FIELD(int32_t, head_size)                                                                        \
  FIELD(int32_t, value_size)                                                                       \
  FIELD(int32_t, causal)                                                                           \
  FIELD(int32_t, windowed)                                                                         \
  FIELD(int32_t, key_mask)                                                                         \
  FIELD(int32_t, mask)                                                                             \
  FIELD(int32_t, softcap)                                                                          \
  FIELD(int32_t, uniform_rows)                                                                     \
  FIELD(int32_t, cached)                                                                           \
  FIELD(int32_t, library)
typedef struct {
  TPC_GPU_ATTENTION_FIELDS(TPC_DECLARE_FIELD)
} tpc_gpu_attention;

/* tf32: whether products of f32 are computed in TF32. ptx: all kernels as text, NUL-terminated, for
 * `architecture` and later. kernels: by name, in any order; those of tpc_program's table are all
 * there. */
#define TPC_GPU_CODE_FIELDS(FIELD)                                                                 \
  FIELD(int32_t, architecture)                                                                     \
  FIELD(int32_t, num_kernels)                                                                      \
  FIELD(int32_t, num_cubins)                                                                       \
  FIELD(int32_t, num_attentions)                                                                   \
  FIELD(int32_t, tf32)                                                                             \
  FIELD(const char *, ptx)                                                                         \
  FIELD(const tpc_gpu_kernel *, kernels)                                                           \
  FIELD(const tpc_gpu_cubin *, cubins)                                                             \
  FIELD(const tpc_gpu_attention *, attentions)
struct tpc_gpu_code {
  TPC_GPU_CODE_FIELDS(TPC_DECLARE_FIELD)
};

#ifdef __cplusplus
}
#endif
#endif
