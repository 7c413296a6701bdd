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

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPC_ABI_VERSION 1

#define TPC_DECLARE_FIELD(type, name) type name;

typedef struct tpc_context tpc_context; /* one rank's state; opaque to generated code */

typedef enum {
  TPC_F32 = 0,
  TPC_F64 = 1,
  TPC_F16 = 2,
  TPC_BF16 = 3,
  TPC_I8 = 4,
  TPC_I16 = 5,
  TPC_I32 = 6,
  TPC_I64 = 7,
  TPC_BOOL = 8,
  TPC_U8 = 9
} tpc_dtype;
typedef enum { TPC_SUM = 0, TPC_MAX = 1, TPC_MIN = 2 } tpc_reduction;

/* Runs one whole step of a pipeline stage. env: the values of the manifest's symbols, in order,
 * then this rank's coordinate on each axis of the manifest's grid order, in order. */
typedef void (*tpc_stage_fn)(tpc_context *ctx, const int64_t *env);

/* manifest: JSON, NUL-terminated. */
#define TPC_PROGRAM_FIELDS(FIELD)                                                                  \
  FIELD(uint32_t, abi_version)                                                                     \
  FIELD(int32_t, num_stages)                                                                       \
  FIELD(const char *, manifest)                                                                    \
  FIELD(const tpc_stage_fn *, stages)
typedef struct {
  TPC_PROGRAM_FIELDS(TPC_DECLARE_FIELD)
} tpc_program;

/* Defined by the compiled object. */
extern const tpc_program tpc_program_v1;

/* ---- memory ---- */

/* A stack of frames. push returns 64-byte aligned memory (unspecified contents); pop frees it and
 * all pushed since. */
void *tpc_frame_push(tpc_context *ctx, int64_t bytes);
void tpc_frame_pop(tpc_context *ctx, void *frame);

const void *tpc_input(tpc_context *ctx,
                      int32_t index); /* the whole tensor, the same on every rank */
const void *tpc_parameter(tpc_context *ctx,
                          int32_t index); /* this rank's part; index into manifest.parameters */

/* Delivers a block of output `index`: the box [offset, offset + size) of a tensor of shape
 * `global`, all of `rank` entries, where the shape is the output's with dimensions refined into
 * factors. */
void tpc_output(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                const int64_t *global, const int64_t *offset, const int64_t *size);

/* The same where `data` has `held` entries in dimension `dim`, of which first, first + step, … are
 * delivered: one of several copies. An element has `element_bytes`. */
void tpc_output_every(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                      const int64_t *global, const int64_t *offset, const int64_t *size,
                      int32_t dim, int64_t held, int64_t first, int64_t step,
                      int64_t element_bytes);

/* ---- computation ---- */

/* A generated kernel: rows [lo, hi) of whatever its arguments describe. Integers travel in
 * pointer-sized slots. */
typedef void (*tpc_kernel_fn)(void *const *args, int64_t lo, int64_t hi);
/* Splits [0, rows) over the rank's threads; at least `grain` rows each. An error if a kernel has
 * met a missing index. */
void tpc_parallel_for(tpc_context *ctx, tpc_kernel_fn kernel, void *const *args, int64_t rows,
                      int64_t grain);

/* For kernels, on any of the rank's threads: `index` is not in [-size, size). `node` says who looks
 * it up, and outlives the program. Returns; the first one met becomes the rank's error when the
 * kernel has ended. */
void tpc_missing_index(tpc_context *ctx, const char *node, int64_t index, int64_t size);

typedef enum {
  TPC_EPILOGUE_NONE = 0,
  TPC_EPILOGUE_GELU_ERF = 1,
  TPC_EPILOGUE_GELU_TANH = 2,
  TPC_EPILOGUE_SILU = 3,
  TPC_EPILOGUE_RELU = 4
} tpc_epilogue;

/* out[m, n] = epilogue(x[m, k] * parameter[k, n] + bias[n]) + residual[m, n], f32. `parameter` is
 * an index into manifest.parameters of use "matmul_rhs" (packed once at load). bias and residual
 * may be null; out may be residual. K = 0 gives zeros for the product. */
void tpc_matmul(tpc_context *ctx, int32_t parameter, const float *x, const float *bias,
                const float *residual, float *out, int64_t m, int64_t k, int64_t n,
                int32_t epilogue);

/* out[b, m, n] = a[b, m, k] * b[b, k, n] for `batch` matrices, f32; a stride (in elements, between
 * matrices) of 0 broadcasts. */
void tpc_batch_matmul(tpc_context *ctx, const float *a, const float *b, float *out, int64_t batch,
                      int64_t m, int64_t k, int64_t n, int64_t a_batch_stride,
                      int64_t b_batch_stride);

/* Scaled dot-product attention, f32. q[batch, seq_q, heads_q, head_size], k[batch, seq_k, heads_kv,
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
 *   masked_row: rows without a visible key: 0 = zeros, 1 = uniform over all keys */
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
  FIELD(int32_t, masked_row)
typedef struct {
  TPC_ATTENTION_FIELDS(TPC_DECLARE_FIELD)
} tpc_attention_args;
void tpc_attention(tpc_context *ctx, const tpc_attention_args *args);

/* ---- communication ----
 * `axes` is a bit mask over the manifest's grid order (bit i = order[i]); the group is the ranks
 * that differ from this one on those axes only, in ascending rank order. Tensors are [outer, n,
 * inner]; n is split in the balanced way of docs/architecture.md; over several axes, one after the
 * other, the last of the order first (parts of ascending ranks follow each other). Reductions add
 * in rank order: the same bits on every transport and in every run. They are there for floats, i32
 * and i64 (floats of 16 bits in f32, rounded once); max and min give NaN where there is one. */
/* For messages: the communication that comes next is that of `node`, a name that outlives the
 * program. */
void tpc_at(tpc_context *ctx, const char *node);
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
