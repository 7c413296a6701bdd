/* The C ABI between compiled programs and the runtime. See docs/architecture.md, sections 4 and 5.
 *
 * It is said here and nowhere else: the compiler derives what it emits from these declarations (see
 * lib/Conversion/RuntimeAbi.h). Structs are declared by lists of their fields, for it to read.
 *
 * Conventions: sizes and offsets are counted in elements unless a name says bytes. Buffers are
 * dense, row-major and 64-byte aligned when they come from the runtime. A call on an empty tensor
 * does nothing, except that collectives are still called by every member of the group. No function
 * returns an error: a rank that meets one records it, wakes every other rank of the world, and does
 * not return to the caller. It leaves by a C++ exception: functions that call the runtime carry
 * unwind tables (LLVM's `uwtable`). Through a frame without them the error still ends the process
 * with its message, but cannot be given back to a caller of the program. */
#ifndef TPC_RUNTIME_H
#define TPC_RUNTIME_H

#include "tpc/dtype.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPC_ABI_VERSION 6

#define TPC_DECLARE_FIELD(type, name) type name;

typedef struct tpc_context tpc_context; /* one rank's state; opaque to generated code */

typedef enum { TPC_SUM = 0, TPC_MAX = 1, TPC_MIN = 2 } tpc_reduction;

/* ---- the program ----
 * Of what it is made: functions for the host, which call the runtime, and kernels and constants, by
 * their places in the tables below, for the device. Host functions have addresses of tensors, which
 * they pass on; what is there only kernels and the runtime see. */

/* Runs one whole step of a pipeline stage. env: the values of the manifest's symbols, in order,
 * then this rank's coordinate on each axis of the manifest's grid order, in order. */
typedef void (*tpc_stage_fn)(tpc_context *ctx, const int64_t *env);

/* What kernels of a step have met. The first index that a kernel looked up in vain: it sets
 * `missing` by an atomic exchange, and the rest if it was 0. `node` looks up `index`, which is not
 * in [-size, size), reads zero and goes on; when the step ends, this is the rank's error. */
#define TPC_STATUS_FIELDS(FIELD)                                                                   \
  FIELD(int32_t, missing)                                                                          \
  FIELD(int32_t, node)                                                                             \
  FIELD(int64_t, index)                                                                            \
  FIELD(int64_t, size)
typedef struct {
  TPC_STATUS_FIELDS(TPC_DECLARE_FIELD)
} tpc_status;

/* A generated kernel, for the host: rows [lo, hi) of its results. `env` lies on the device: that of
 * the stage, and the current micro-batch behind it. `operands`: where the operands, then the
 * results are. Rows beyond the results' own, which follow from env, are left out: a launch may
 * cover more of them, and be repeated for other sizes. */
typedef void (*tpc_kernel_fn)(const int64_t *env, tpc_status *status, void *const *operands,
                              int64_t lo, int64_t hi);

/* `function` is null where kernels are for GPUs. */
#define TPC_KERNEL_FIELDS(FIELD)                                                                   \
  FIELD(const char *, name)                                                                        \
  FIELD(tpc_kernel_fn, function)
typedef struct {
  TPC_KERNEL_FIELDS(TPC_DECLARE_FIELD)
} tpc_kernel;

/* The elements of a constant tensor. */
#define TPC_DATA_FIELDS(FIELD)                                                                     \
  FIELD(const void *, data)                                                                        \
  FIELD(int64_t, bytes)
typedef struct {
  TPC_DATA_FIELDS(TPC_DECLARE_FIELD)
} tpc_data;

/* Kernels for GPUs: see tpc/gpu.h. */
typedef struct tpc_gpu_code tpc_gpu_code;

/* manifest: JSON, NUL-terminated. nodes: names of ONNX nodes, for messages. gpu_code: null where
 * kernels are for the host. */
#define TPC_PROGRAM_FIELDS(FIELD)                                                                  \
  FIELD(uint32_t, abi_version)                                                                     \
  FIELD(int32_t, num_stages)                                                                       \
  FIELD(int32_t, num_kernels)                                                                      \
  FIELD(int32_t, num_constants)                                                                    \
  FIELD(int32_t, num_nodes)                                                                        \
  FIELD(const char *, manifest)                                                                    \
  FIELD(const tpc_stage_fn *, stages)                                                              \
  FIELD(const tpc_kernel *, kernels)                                                               \
  FIELD(const tpc_data *, constants)                                                               \
  FIELD(const char *const *, nodes)                                                                \
  FIELD(const tpc_gpu_code *, gpu_code)
typedef struct {
  TPC_PROGRAM_FIELDS(TPC_DECLARE_FIELD)
} tpc_program;

/* Defined by the compiled object. */
extern const tpc_program tpc_program_v6;

/* ---- memory ---- */

/* A stack of frames. push returns 64-byte aligned memory (unspecified contents); pop frees it and
 * all pushed since. */
void *tpc_frame_push(tpc_context *ctx, int64_t bytes);
void tpc_frame_pop(tpc_context *ctx, void *frame);

const void *tpc_input(tpc_context *ctx,
                      int32_t index); /* the whole tensor, the same on every rank */
const void *tpc_parameter(tpc_context *ctx,
                          int32_t index); /* this rank's part; index into manifest.parameters */

/* This rank's part of what stays from step to step, index into manifest.caches: of the sequences of
 * this step, of which the part takes `bytes`. A sequence keeps its place. What no step has written
 * is not specified. */
void *tpc_state(tpc_context *ctx, int32_t index, int64_t bytes);

/* A constant of the program. */
const void *tpc_constant(tpc_context *ctx, int32_t index);

/* From one place in the device's memory to another that does not overlap. */
void tpc_copy(tpc_context *ctx, void *to, const void *from, int64_t bytes);

/* Delivers a block of output `index`: the box [offset, offset + size) of a tensor of shape
 * `global`, all of `rank` entries, where the shape is the output's with dimensions refined into
 * factors. */
void tpc_output(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                const int64_t *global, const int64_t *offset, const int64_t *size);

/* The same where `data` has `held` entries in dimension `dim`, of which first, first + step, … are
 * delivered: one of several copies. */
void tpc_output_every(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                      const int64_t *global, const int64_t *offset, const int64_t *size,
                      int32_t dim, int64_t held, int64_t first, int64_t step);

/* ---- computation ---- */

/* From here on, in the order of the program, place `place` of the env that kernels see is `value`.
 */
void tpc_set_env(tpc_context *ctx, int32_t place, int64_t value);

/* Runs rows [0, rows) of a kernel of the program; of these it is worth giving at least `grain` to a
 * thread. `operands`, of which there are `count`, may be overwritten when this returns; the kernel
 * may not have run by then, but has when what is called next reads what it writes. */
void tpc_launch(tpc_context *ctx, int32_t kernel, void *const *operands, int32_t count,
                int64_t rows, int64_t grain);

typedef enum {
  TPC_EPILOGUE_NONE = 0,
  TPC_EPILOGUE_GELU_ERF = 1,
  TPC_EPILOGUE_GELU_TANH = 2,
  TPC_EPILOGUE_SILU = 3,
  TPC_EPILOGUE_RELU = 4
} tpc_epilogue;

/* out[m, n] = epilogue(x[m, k] * parameter[k, n] + bias[n]) + residual[m, n]. `parameter` is an
 * index into manifest.parameters of use "matmul_rhs" (packed once at load). bias and residual may
 * be null; out may be residual. `dtype`: of the elements of x and the parameter, whatever their
 * pointers say; `out_dtype`: of bias, residual and out, the same or f32. Processors compute f32
 * alone. */
#define TPC_PRODUCT_FIELDS(FIELD)                                                                  \
  FIELD(int64_t, n)                                                                                \
  FIELD(const float *, bias)                                                                       \
  FIELD(const float *, residual)                                                                   \
  FIELD(float *, out)                                                                              \
  FIELD(int32_t, parameter)                                                                        \
  FIELD(int32_t, epilogue)                                                                         \
  FIELD(int32_t, dtype)                                                                            \
  FIELD(int32_t, out_dtype)
typedef struct {
  TPC_PRODUCT_FIELDS(TPC_DECLARE_FIELD)
} tpc_product;

/* Products of one left side with `count` parameters beside each other, in one go: what one of them
 * writes another does not read. K = 0 gives zeros for the products. */
void tpc_products(tpc_context *ctx, const float *x, int64_t m, int64_t k,
                  const tpc_product *products, int32_t count);

/* out[b, m, n] = a[b, m, k] * b[b, k, n] for `batch` matrices of elements as for products; a stride
 * (in elements, between matrices) of 0 broadcasts. */
void tpc_batch_matmul(tpc_context *ctx, int32_t dtype, const float *a, const float *b, float *out,
                      int64_t batch, int64_t m, int64_t k, int64_t n, int64_t a_batch_stride,
                      int64_t b_batch_stride);

/* Scaled dot-product attention. q[batch, seq_q, heads_q, head_size], k[batch, seq_k, heads_kv,
 * head_size], v[batch, seq_k, heads_kv, value_size], out[batch, seq_q, heads_q, value_size]. Each
 * of the kv heads serves heads_q / heads_kv query heads in a row. A row stride is the number of
 * elements between consecutive tokens.
 *
 *   softcap: 0: none; else softcap * tanh(x / softcap) of x = scale * q k^T
 *   causal: query i sees key j only if j <= i + causal_offset
 *   key_mask: null or [batch, seq_k]: nonzero = visible
 *   mask: null or boolean [batch or 1, heads_q or 1, seq_q, seq_k]: nonzero = visible
 *   bias: null or additive f32 of the same shape rules
 *   (mask|bias)_(batch|head)_stride: elements; 0 broadcasts
 *   masked_row: rows without a visible key: 0 = zeros, 1 = uniform over all keys
 *   windowed: query i sees key j only if j > i + window_offset
 *   slopes: null or [heads_q]: slopes[h] * (j - i - slopes_offset) is added, rounded like a bias
 *   lengths: null or [batch]: as many keys of a sequence stand before its first query: lengths[b]
 * is added to all offsets. Only causal attention has it. Keys that no query sees are not read. With
 * lengths, k and v lie as (k|v)_(batch|head)_stride say, in elements between sequences and between
 * kv heads; without, behind each other
 *   pages: room for a page table: null now, each sequence has one page, in the order of the batch
 *   dtype: of q, k, v and out; bias_dtype, slopes_dtype: of those; processors have f32 alone */
#define TPC_ATTENTION_FIELDS(FIELD)                                                                \
  FIELD(const float *, q)                                                                          \
  FIELD(const float *, k)                                                                          \
  FIELD(const float *, v)                                                                          \
  FIELD(float *, out)                                                                              \
  FIELD(int64_t, batch)                                                                            \
  FIELD(int64_t, seq_q)                                                                            \
  FIELD(int64_t, seq_k)                                                                            \
  FIELD(int64_t, heads_q)                                                                          \
  FIELD(int64_t, heads_kv)                                                                         \
  FIELD(int64_t, head_size)                                                                        \
  FIELD(int64_t, value_size)                                                                       \
  FIELD(int64_t, q_row_stride)                                                                     \
  FIELD(int64_t, k_row_stride)                                                                     \
  FIELD(int64_t, v_row_stride)                                                                     \
  FIELD(int64_t, out_row_stride)                                                                   \
  FIELD(float, scale)                                                                              \
  FIELD(float, softcap)                                                                            \
  FIELD(int32_t, causal)                                                                           \
  FIELD(int64_t, causal_offset)                                                                    \
  FIELD(const uint8_t *, key_mask)                                                                 \
  FIELD(const uint8_t *, mask)                                                                     \
  FIELD(int64_t, mask_batch_stride)                                                                \
  FIELD(int64_t, mask_head_stride)                                                                 \
  FIELD(const float *, bias)                                                                       \
  FIELD(int64_t, bias_batch_stride)                                                                \
  FIELD(int64_t, bias_head_stride)                                                                 \
  FIELD(int32_t, masked_row)                                                                       \
  FIELD(int32_t, windowed)                                                                         \
  FIELD(int64_t, window_offset)                                                                    \
  FIELD(const float *, slopes)                                                                     \
  FIELD(int64_t, slopes_offset)                                                                    \
  FIELD(const int64_t *, lengths)                                                                  \
  FIELD(const int64_t *, pages)                                                                    \
  FIELD(int64_t, k_batch_stride)                                                                   \
  FIELD(int64_t, k_head_stride)                                                                    \
  FIELD(int64_t, v_batch_stride)                                                                   \
  FIELD(int64_t, v_head_stride)                                                                    \
  FIELD(int32_t, dtype)                                                                            \
  FIELD(int32_t, bias_dtype)                                                                       \
  FIELD(int32_t, slopes_dtype)
typedef struct {
  TPC_ATTENTION_FIELDS(TPC_DECLARE_FIELD)
} tpc_attention_args;
void tpc_attention(tpc_context *ctx, const tpc_attention_args *args);

/* Keys or values of new tokens, behind those that a cache has: cache[b, h, lengths[b] + i, :] =
 * fresh[b, h, i, :] for i in [0, sequence), as far as there is room. cache[batch, heads, capacity,
 * size] is dense, fresh lies as its strides say, in elements between sequences, heads and tokens.
 * pages: as for attention. Kernels that compute new keys write them there themselves. */
#define TPC_APPEND_FIELDS(FIELD)                                                                   \
  FIELD(void *, cache)                                                                             \
  FIELD(const void *, fresh)                                                                       \
  FIELD(const int64_t *, lengths)                                                                  \
  FIELD(const int64_t *, pages)                                                                    \
  FIELD(int64_t, batch)                                                                            \
  FIELD(int64_t, heads)                                                                            \
  FIELD(int64_t, sequence)                                                                         \
  FIELD(int64_t, capacity)                                                                         \
  FIELD(int64_t, size)                                                                             \
  FIELD(int64_t, fresh_batch_stride)                                                               \
  FIELD(int64_t, fresh_head_stride)                                                                \
  FIELD(int64_t, fresh_row_stride)                                                                 \
  FIELD(int32_t, dtype)
typedef struct {
  TPC_APPEND_FIELDS(TPC_DECLARE_FIELD)
} tpc_append_args;
void tpc_append(tpc_context *ctx, const tpc_append_args *args);

/* ---- communication ----
 * `axes` is a bit mask over the manifest's grid order (bit i = order[i]); the group is the ranks
 * that differ from this one on those axes only, in ascending rank order. Tensors are [outer, n,
 * inner]; n is split in the balanced way of docs/architecture.md; over several axes, one after the
 * other, the last of the order first (parts of ascending ranks follow each other). Reductions add
 * in rank order: the same bits on every transport and in every run. They are there for floats, i32
 * and i64 (floats of 16 bits in f32, rounded once); max and min give NaN where there is one. */
/* For messages: the communication that comes next is that of a node of the program. */
void tpc_at(tpc_context *ctx, int32_t node);
void tpc_all_reduce(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                    const void *in, void *out, int64_t count); /* in may be out */
/* in: [outer, own part of n, inner] -> out: [outer, n, inner] */
void tpc_all_gather(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                    int64_t outer, int64_t n, int64_t inner);
/* in: [outer, n, inner] -> out: [outer, own part of n, inner] */
void tpc_reduce_scatter(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                        const void *in, void *out, int64_t outer, int64_t n, int64_t inner);
/* in: [outer, a whole, middle, own part of b, inner] -> out: [outer, own part of a, middle, b
 * whole, inner] if split_first, else the other way round: a is gathered and b is split. */
void tpc_all_to_all(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                    int64_t outer, int64_t a, int64_t middle, int64_t b, int64_t inner,
                    int32_t split_first);
/* One dimension, [blocks, n, unit], moves between ranks. `splits`: four lists of places in the
 * order, each ended by -1: the axes that split n in the input, those that then split what is left
 * of all of it, and the same for the output. The group is all of them; both sides have the same
 * axes. in: [outer, own part of blocks * n * unit, inner] -> out: the same, of which element i of
 * each block is element (first + i) mod (n * unit) of the input's. Only what another rank has is
 * sent. */
void tpc_collective_permute(tpc_context *ctx, const int32_t *splits, int32_t dtype, const void *in,
                            void *out, int64_t outer, int64_t blocks, int64_t n, int64_t unit,
                            int64_t inner, int64_t first);
/* A tensor under one distribution becomes the same under another: each rank gets what it needs and
 * does not have. `layout`: the number of dimensions; for each the number of its factors, for each
 * factor the axes (places in the order) that split it before and, in another list, after; then in
 * two lists those that split what is left of the product of the factors. Lists end by -1. `sizes`:
 * of all factors, in order. The group is all axes that occur. in: own part before, out: own part
 * after, both row by row in the order of the whole tensor. Members that are alike on the axes
 * before have the same: who sends is said in the reference of tpc.exchange. */
void tpc_exchange(tpc_context *ctx, const int32_t *layout, int32_t dtype, const void *in, void *out,
                  const int64_t *sizes);
/* root: place in the group. */
void tpc_broadcast(tpc_context *ctx, uint32_t axes, int32_t dtype, void *data, int64_t count,
                   int64_t root);
/* To or from the rank whose coordinate on `axis` (an index into the order) is `peer` and which is
 * like this one otherwise. Messages of one pair arrive in order. send returns when `data` may be
 * reused. count 0: nothing is sent. */
void tpc_send(tpc_context *ctx, int32_t axis, int32_t dtype, const void *data, int64_t count,
              int64_t peer);
void tpc_recv(tpc_context *ctx, int32_t axis, int32_t dtype, void *data, int64_t count,
              int64_t peer);

/* ---- entry ---- */

/* What an executable's main calls. Parses the command line, reads inputs, starts ranks, writes
 * outputs. Returns the exit status. */
int tpc_main(const tpc_program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
