/* Tables of a program's GPU kernels in the compiled object. Part of the interface of runtime.h and
 * covered by its version; a separate header, because few files need it. */
#ifndef TPC_GPU_H
#define TPC_GPU_H

#include "tpc/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Mapping of rows to threads: docs/design/gpu-kernels.md, "Thread mapping". */
typedef enum {
  TPC_GPU_ELEMENTS = 0,
  TPC_GPU_WARP_PER_ROW = 1,
  TPC_GPU_BLOCK_PER_ROW = 2,
  TPC_GPU_ROW_BY_LENGTH = 3,
  TPC_GPU_TILES = 4,
  TPC_GPU_ATTENTION = 5 /* different parameters and grid: tpc/attention.h */
} tpc_gpu_shape;
enum {
  TPC_GPU_TILE = 32,     /* a block computes a tile of 32 rows and 32 elements */
  TPC_GPU_LONG_ROW = 256 /* longer rows take a block instead of a warp */
};

/* A size that the host computes from the kernels' env. */
typedef int64_t (*tpc_size_fn)(const int64_t *env);

/* An entry point of the code: NAME(env, status, operands...). All parameters are addresses in
 * global memory; `operands` is the number of operands. A kernel is correct for any grid of blocks
 * of `threads` threads; the remaining fields determine an efficient grid. `elements_per_row`:
 * length of the longest loop over a row, which is divided among the row's threads.
 * `elements_per_thread`: elements that a thread computes at a time. `largest_extent`: must be less
 * than 2^31, because indices are 32 bits.
 * `dynamic_shared_bytes`: dynamic shared memory of a launch. */
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

/* Machine code for one architecture (90: sm_90), which also runs on later ones of the same family.
 */
#define TPC_GPU_CUBIN_FIELDS(FIELD)                                                                \
  FIELD(const void *, data)                                                                        \
  FIELD(int64_t, bytes)                                                                            \
  FIELD(int32_t, architecture)
typedef struct {
  TPC_GPU_CUBIN_FIELDS(TPC_DECLARE_FIELD)
} tpc_gpu_cubin;

/* An attention variant of the program (tpc/attention.h): indices of its kernels, and its
 * compile-time parameters. element, bias, slopes, sinks: tpc_dtype; -1: absent. The last eight are
 * Booleans. library: a vendor library may compute it instead (gpu-kernels.md). */
#define TPC_GPU_ATTENTION_FIELDS(FIELD)                                                            \
  FIELD(int32_t, tiles)                                                                            \
  FIELD(int32_t, split)                                                                            \
  FIELD(int32_t, element)                                                                          \
  FIELD(int32_t, bias)                                                                             \
  FIELD(int32_t, slopes)                                                                           \
  FIELD(int32_t, sinks)                                                                            \
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

/* tf32: whether f32 matmuls are computed in TF32. ptx: all kernels as text, NUL-terminated, for
 * `architecture` and later. kernels: in any order, because they are found by name; includes every
 * kernel of tpc_program's table. */
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
