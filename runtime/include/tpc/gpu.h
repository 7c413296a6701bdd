/* Kernels of a program that are for GPUs: what the compiled object has of them beside the host's
 * functions. Part of the interface of runtime.h, and of its version; a header of its own because
 * few read it. */
#ifndef TPC_GPU_H
#define TPC_GPU_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How rows and threads belong together: docs/gpu-kernels.md, "Who does what". */
typedef enum {
  TPC_GPU_ELEMENTS = 0,
  TPC_GPU_WARP_PER_ROW = 1,
  TPC_GPU_BLOCK_PER_ROW = 2,
  TPC_GPU_ROW_BY_LENGTH = 3,
  TPC_GPU_TILES = 4,
  /* Of attention: other parameters and another grid, tpc/attention.h. */
  TPC_GPU_ATTENTION_TILES = 5,
  TPC_GPU_ATTENTION_SPLIT = 6,
  TPC_GPU_ATTENTION_COMBINE = 7
} tpc_gpu_shape;
enum {
  TPC_GPU_TILE = 32,          /* rows, and elements, that a block does at a time in tiles */
  TPC_GPU_LONG_ROW = 256,     /* rows that are longer are a block's, and not a warp's */
  TPC_GPU_CHUNKS_PER_PART = 4 /* that a thread does before the next part of a row is another's */
};

/* A size that follows from the env of kernels, as the host has it. */
typedef int64_t (*tpc_size_fn)(const int64_t *env);

/* An entry point of the code: NAME(env, status, operands...), all of them addresses in global
 * memory; `operands` is how many of the latter it takes. A kernel is right for any grid of blocks
 * of `threads` threads; the rest says what is a good one. `elements_per_row`: those that threads
 * share, of which one does `elements_per_thread` at a time. `largest_extent`: indices are 32 bits,
 * so that it must be less than 2^31. */
#define TPC_GPU_KERNEL_FIELDS(FIELD)                                                               \
  FIELD(const char *, name)                                                                        \
  FIELD(tpc_size_fn, elements_per_row)                                                             \
  FIELD(tpc_size_fn, largest_extent)                                                               \
  FIELD(int32_t, shape)                                                                            \
  FIELD(int32_t, threads)                                                                          \
  FIELD(int32_t, elements_per_thread)                                                              \
  FIELD(int32_t, operands)
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

/* ptx: all kernels as text, NUL-terminated, for `architecture` and later. kernels: by name, in any
 * order; those of tpc_program's table are all there. */
#define TPC_GPU_CODE_FIELDS(FIELD)                                                                 \
  FIELD(int32_t, architecture)                                                                     \
  FIELD(int32_t, num_kernels)                                                                      \
  FIELD(int32_t, num_cubins)                                                                       \
  FIELD(const char *, ptx)                                                                         \
  FIELD(const tpc_gpu_kernel *, kernels)                                                           \
  FIELD(const tpc_gpu_cubin *, cubins)
struct tpc_gpu_code {
  TPC_GPU_CODE_FIELDS(TPC_DECLARE_FIELD)
};

#ifdef __cplusplus
}
#endif
#endif
