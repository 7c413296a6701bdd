/* The C ABI between compiled programs and the runtime. See docs/design/executable.md.
 *
 * This header is the only definition of the ABI. The compiler derives its calls and structs from
 * these declarations (include/tpc/Conversion/Env/RuntimeAbi.h). Structs are declared by field lists
 * so that the compiler can read them.
 *
 * Conventions:
 *
 *   * Sizes and offsets are counted in elements unless a name says bytes.
 *   * Buffers are dense and row-major; those that the runtime allocates are 64-byte aligned.
 *   * A call on an empty tensor does nothing. But collectives must be called by every rank of their
 *     group, also with empty tensors.
 *   * No function returns an error. A rank that detects an error records it, wakes every other
 *     rank of the world, and throws a C++ exception instead of returning.
 *   * Functions that call the runtime carry unwind tables (LLVM's `uwtable`). Through a frame
 *     without them the error still ends the process with its message, but cannot reach the
 *     program's caller. */
#ifndef TPC_RUNTIME_H
#define TPC_RUNTIME_H

#include "tpc/dtype.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPC_ABI_VERSION 7

#define TPC_DECLARE_FIELD(type, name) type name;

typedef struct tpc_context tpc_context; /* state of one rank; opaque to generated code */

typedef enum { TPC_SUM = 0, TPC_MAX = 1, TPC_MIN = 2 } tpc_reduction;

/* ---- the program ----
 * A program has host functions, which call the runtime, and kernels and constants for the device,
 * which are addressed by index into the tables below. Host functions pass tensor addresses but
 * never dereference them; only kernels and the runtime access the data. */

/* Runs one whole step of a pipeline stage. `env` contains the values of the manifest's symbols, in
 * order, followed by this rank's coordinate on each axis of the manifest's grid order. */
typedef void (*tpc_stage_fn)(tpc_context *ctx, const int64_t *env);

/* Device-side error state of a step: the first index out of bounds. The kernel sets `missing` by
 * an atomic exchange, and sets the other fields if it was 0. `node` is the node whose lookup
 * failed, `index` the value outside of [-size, size). The kernel reads zero instead and continues;
 * at the end of the step the rank reports this state as its error. */
#define TPC_STATUS_FIELDS(FIELD)                                                                   \
  FIELD(int32_t, missing)                                                                          \
  FIELD(int32_t, node)                                                                             \
  FIELD(int64_t, index)                                                                            \
  FIELD(int64_t, size)
typedef struct {
  TPC_STATUS_FIELDS(TPC_DECLARE_FIELD)
} tpc_status;

/* A generated kernel for the host. Computes rows [lo, hi) of its results. `env` resides on the
 * device: the stage's env, followed by the current micro-batch. `operands` contains the addresses
 * of the operands, then of the results. The kernel skips rows beyond the number of rows in env: a
 * launch may cover more rows, and may be replayed with other sizes. */
typedef void (*tpc_kernel_fn)(const int64_t *env, tpc_status *status, void *const *operands,
                              int64_t lo, int64_t hi);

/* `function` is null if the kernels are for GPUs. */
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

/* manifest: JSON, NUL-terminated. nodes: names of ONNX nodes, for error messages. gpu_code: null if
 * the kernels are for the host. */
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
extern const tpc_program tpc_program_v7;

/* ---- memory ---- */

/* A stack of frames. push returns 64-byte aligned, uninitialized memory. pop frees the frame and
 * all frames pushed after it. */
void *tpc_frame_push(tpc_context *ctx, int64_t bytes);
void tpc_frame_pop(tpc_context *ctx, void *frame);

/* Returns the whole tensor of an input, on every rank. `index`: into manifest.inputs. */
const void *tpc_input(tpc_context *ctx, int32_t index);
/* Returns this rank's shard of a parameter. `index`: into manifest.parameters. */
const void *tpc_parameter(tpc_context *ctx, int32_t index);

/* Returns this rank's shard of a cache that persists between steps. `index` is an index into
 * manifest.caches; `bytes` is the size of the shard for the sequences of this step. A sequence
 * keeps its position in the cache from step to step. Unwritten elements are unspecified. */
void *tpc_state(tpc_context *ctx, int32_t index, int64_t bytes);

/* Returns a constant of the program. */
const void *tpc_constant(tpc_context *ctx, int32_t index);

/* Copies `bytes` between two ranges of device memory that do not overlap. */
void tpc_copy(tpc_context *ctx, void *to, const void *from, int64_t bytes);

/* Delivers a block of output `index`: the box [offset, offset + size) of a tensor of shape
 * `global`. All three arrays have `rank` entries; `global` is the output's shape with dimensions
 * refined into factors. */
void tpc_output(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                const int64_t *global, const int64_t *offset, const int64_t *size);

/* Same as tpc_output for data that contains copies: `data` has `entries` entries in dimension
 * `dim`; only the entries first, first + step, … are delivered. */
void tpc_output_every(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                      const int64_t *global, const int64_t *offset, const int64_t *size,
                      int32_t dim, int64_t entries, int64_t first, int64_t step);

/* ---- computation ---- */

/* Sets entry `index` of the env that kernels read to `value`, for all later operations in program
 * order. */
void tpc_set_env(tpc_context *ctx, int32_t index, int64_t value);

/* Runs rows [0, rows) of a kernel of the program. `grain` is the minimum number of rows worth
 * giving to one thread. The caller may overwrite `operands` (`count` entries) after the call. The
 * kernel may run later, but before any later operation that reads its results. */
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
 * index of a manifest.parameters entry with use "matmul_rhs" (packed once at load). bias and
 * residual may be null; out may alias residual. `dtype` is the element type of x and of the
 * parameter, regardless of the pointer types; `out_dtype` is that of bias, residual and out: the
 * same type or f32. CPUs compute f32 only. `out_stride` is the distance in elements between rows of
 * out and of residual: n on CPUs. */
#define TPC_PRODUCT_FIELDS(FIELD)                                                                  \
  FIELD(int64_t, n)                                                                                \
  FIELD(int64_t, out_stride)                                                                       \
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

/* Computes `count` matmuls that share the left-hand side x. None reads the result of another. With
 * k = 0 a matmul is zero. */
void tpc_products(tpc_context *ctx, const float *x, int64_t m, int64_t k,
                  const tpc_product *products, int32_t count);

typedef enum { TPC_NORM_NONE = 0, TPC_NORM_RMS = 1, TPC_NORM_LAYER = 2 } tpc_norm;

/* Ops that a device may compute together with matmuls of one left-hand side x.
 *   norm: x[m, k] is the norm of source[m, k] over each row, with epsilon, times scale[k], plus
 *   shift[k], which may be null; without a norm, these pointers are null
 *   activation: a tpc_epilogue. `out` is this function of the only matmul's result or, if `gated`,
 *   this function of the first of two results, times the second; null without an activation
 *   (source|scale)_dtype: element types; shift has that of scale, out that of the results */
#define TPC_FUSION_FIELDS(FIELD)                                                                   \
  FIELD(const void *, source)                                                                      \
  FIELD(const void *, scale)                                                                       \
  FIELD(const void *, shift)                                                                       \
  FIELD(void *, out)                                                                               \
  FIELD(int32_t, norm)                                                                             \
  FIELD(float, epsilon)                                                                            \
  FIELD(int32_t, source_dtype)                                                                     \
  FIELD(int32_t, scale_dtype)                                                                      \
  FIELD(int32_t, activation)                                                                       \
  FIELD(int32_t, gated)
typedef struct {
  TPC_FUSION_FIELDS(TPC_DECLARE_FIELD)
} tpc_fusion;

/* Computes tpc_products with a norm before and an activation after them in one kernel, without
 * writing x or, with an activation, the results of the matmuls. Returns 0 if the device does not:
 * then nothing is computed, and the caller computes the ops one by one. */
int32_t tpc_fused_products(tpc_context *ctx, const tpc_fusion *fusion, const float *x, int64_t m,
                           int64_t k, const tpc_product *products, int32_t count);

/* out[b, m, n] = a[b, m, k] * b[b, k, n] for `batch` matrices, with element types as for
 * tpc_products. Batch strides are in elements between matrices; 0 broadcasts. */
void tpc_batch_matmul(tpc_context *ctx, int32_t dtype, const float *a, const float *b, float *out,
                      int64_t batch, int64_t m, int64_t k, int64_t n, int64_t a_batch_stride,
                      int64_t b_batch_stride);

/* out[m, n] = epilogue(x[m, k] * matrix[k, n] + bias[n]) + residual[m, n], in f32, where matrix[i,
 * j] = (q - zero) * scale, rounded to f32, is computed from dense parameters. bias and residual may
 * be null; out may alias residual.
 *
 *   q: `bits` bits (2, 4 or 8) of element i of row j of `packed` or, with by_rows, of element j of
 *   row i; the first element is in the low bits of a byte. Rows are row_bytes apart. In two's
 *   complement if is_signed
 *   scale: element j * scale_column_stride + i / block * scale_block_stride of `scale`, of type
 *   scale_dtype: f32, f16 or bf16
 *   zero: zero_point if `zero` is null; else the element of `zero` at zero_(column|block)_stride,
 * of zero_bits bits, packed like q, or of type scale_dtype if zero_bits is 0 */
#define TPC_QUANTIZED_FIELDS(FIELD)                                                                \
  FIELD(const float *, x)                                                                          \
  FIELD(const void *, packed)                                                                      \
  FIELD(const void *, scale)                                                                       \
  FIELD(const void *, zero)                                                                        \
  FIELD(const float *, bias)                                                                       \
  FIELD(const float *, residual)                                                                   \
  FIELD(float *, out)                                                                              \
  FIELD(int64_t, m)                                                                                \
  FIELD(int64_t, k)                                                                                \
  FIELD(int64_t, n)                                                                                \
  FIELD(int64_t, row_bytes)                                                                        \
  FIELD(int64_t, block)                                                                            \
  FIELD(int64_t, scale_column_stride)                                                              \
  FIELD(int64_t, scale_block_stride)                                                               \
  FIELD(int64_t, zero_column_stride)                                                               \
  FIELD(int64_t, zero_block_stride)                                                                \
  FIELD(int32_t, bits)                                                                             \
  FIELD(int32_t, zero_bits)                                                                        \
  FIELD(int32_t, zero_point)                                                                       \
  FIELD(int32_t, is_signed)                                                                        \
  FIELD(int32_t, by_rows)                                                                          \
  FIELD(int32_t, scale_dtype)                                                                      \
  FIELD(int32_t, epilogue)
typedef struct {
  TPC_QUANTIZED_FIELDS(TPC_DECLARE_FIELD)
} tpc_quantized_args;
void tpc_quantized_product(tpc_context *ctx, const tpc_quantized_args *args);

/* Scaled dot-product attention. q[batch, seq_q, heads_q, head_size], k[batch, seq_k, heads_kv,
 * head_size], v[batch, seq_k, heads_kv, value_size], out[batch, seq_q, heads_q, value_size]. Each
 * KV head serves heads_q / heads_kv consecutive query heads. A row stride is the number of
 * elements between consecutive tokens.
 *
 *   softcap: 0: none; else softcap * tanh(x / softcap) of x = scale * q k^T
 *   causal: key j is visible to query i only if j <= i + causal_offset
 *   key_mask: null or [batch, seq_k]: nonzero = visible
 *   mask: null or boolean [batch or 1, heads_q or 1, seq_q, seq_k]: nonzero = visible
 *   bias: null, or numbers added to the scores, with the shape rules of mask
 *   (mask|bias)_(batch|head)_stride: elements; 0 broadcasts
 *   masked_row: rows without a visible key: 0 = zeros, 1 = uniform over all keys
 *   windowed: key j is visible to query i only if j > i + window_offset
 *   slopes: null or [heads_q]: adds slopes[h] * (j - i - slopes_offset) to the scores, in f32
 *   sinks: null or [heads_q]: the sum that softmax divides by also contains exp(sinks[h])
 *   lengths: null or [batch]: number of keys that precede the first query of each sequence; only
 *   for causal attention. lengths[b] is added to all offsets. Keys that are visible to no query are
 *   not read.
 *   (k|v)_(batch|head)_stride: with lengths, elements between sequences and between KV heads;
 *   without lengths, k and v are dense
 *   pages: reserved for a page table; null in this version: each sequence has one page, in batch
 *   order
 *   dtype: type of q, k, v and out; bias_dtype, slopes_dtype, sinks_dtype: types of these operands.
 *   CPUs support only f32 */
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
  FIELD(const float *, sinks)                                                                      \
  FIELD(const int64_t *, lengths)                                                                  \
  FIELD(const int64_t *, pages)                                                                    \
  FIELD(int64_t, k_batch_stride)                                                                   \
  FIELD(int64_t, k_head_stride)                                                                    \
  FIELD(int64_t, v_batch_stride)                                                                   \
  FIELD(int64_t, v_head_stride)                                                                    \
  FIELD(int32_t, dtype)                                                                            \
  FIELD(int32_t, bias_dtype)                                                                       \
  FIELD(int32_t, slopes_dtype)                                                                     \
  FIELD(int32_t, sinks_dtype)
typedef struct {
  TPC_ATTENTION_FIELDS(TPC_DECLARE_FIELD)
} tpc_attention_args;
void tpc_attention(tpc_context *ctx, const tpc_attention_args *args);

/* Mixture of experts, on the experts of this rank:
 *
 *   out[t, o] = sum over e, f of routing[t, first + e] * h[t, e, f] * down[e, o, f]
 *   h[t, e, f] = activation(u), or with a gate activation(v) * (u + beta)
 *   u = x[t, :] · up[e, f, :] + up_bias[e, f], v the same with gate and gate_bias
 *
 * x[tokens, hidden], routing[tokens, all], up and gate[experts, inner, hidden], down[experts,
 * outputs, inner], biases [experts, inner], out[tokens, outputs]. gate and biases may be null. up,
 * gate and down are of type dtype, f32, f16 or bf16; all others are f32.
 *
 *   activation: a tpc_epilogue; SILU is z * sigmoid(alpha * z)
 *   limit: 0: none; else v is at most limit, and u is clamped to [-limit, limit]
 *
 * Rows whose element of routing is 0 are not computed for that expert. out is zero without experts
 * or inner elements. */
#define TPC_EXPERTS_FIELDS(FIELD)                                                                  \
  FIELD(const float *, x)                                                                          \
  FIELD(const float *, routing)                                                                    \
  FIELD(const void *, up)                                                                          \
  FIELD(const float *, up_bias)                                                                    \
  FIELD(const void *, gate)                                                                        \
  FIELD(const float *, gate_bias)                                                                  \
  FIELD(const void *, down)                                                                        \
  FIELD(float *, out)                                                                              \
  FIELD(int64_t, tokens)                                                                           \
  FIELD(int64_t, hidden)                                                                           \
  FIELD(int64_t, experts)                                                                          \
  FIELD(int64_t, all)                                                                              \
  FIELD(int64_t, first)                                                                            \
  FIELD(int64_t, inner)                                                                            \
  FIELD(int64_t, outputs)                                                                          \
  FIELD(float, alpha)                                                                              \
  FIELD(float, beta)                                                                               \
  FIELD(float, limit)                                                                              \
  FIELD(int32_t, activation)                                                                       \
  FIELD(int32_t, dtype)
typedef struct {
  TPC_EXPERTS_FIELDS(TPC_DECLARE_FIELD)
} tpc_experts_args;
void tpc_experts(tpc_context *ctx, const tpc_experts_args *args);

/* Appends keys or values of new tokens to a cache: cache[b, h, lengths[b] + i, :] = fresh[b, h, i,
 * :] for i in [0, sequence), up to the capacity. cache[batch, heads, capacity, size] is dense;
 * fresh has strides in elements between sequences, heads and tokens. pages: as for attention.
 * Kernels that compute new keys write them to the cache directly and need no append. */
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
 * `axes` is a bit mask over the manifest's grid order (bit i = order[i]). The group consists of
 * the ranks that differ from this one on those axes only, in ascending rank order.
 *
 * Tensors are [outer, n, inner]. n has the balanced split of docs/design/types.md. Several axes
 * split it one after the other, the last axis of the order first, so that shards of ascending ranks
 * are adjacent.
 *
 * Reductions support floats, i32 and i64; max and min propagate NaN. Over host memory they add in
 * rank order, and reduce 16-bit floats in f32 and round once: the result has the same bits on every
 * transport and in every run. On devices, the library determines order and rounding. */
/* Sets the ONNX node that error messages name for the following communication; `node` is an index
 * into tpc_program.nodes. */
void tpc_at(tpc_context *ctx, int32_t node);
void tpc_all_reduce(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                    const void *in, void *out, int64_t count); /* in may alias out */
/* in: [outer, own shard of n, inner] -> out: [outer, n, inner] */
void tpc_all_gather(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                    int64_t outer, int64_t n, int64_t inner);
/* in: [outer, n, inner] -> out: [outer, own shard of n, inner] */
void tpc_reduce_scatter(tpc_context *ctx, uint32_t axes, int32_t dtype, int32_t reduction,
                        const void *in, void *out, int64_t outer, int64_t n, int64_t inner);
/* Gathers dimension a and splits dimension b, or the reverse. in: [outer, a whole, middle, own
 * shard of b, inner] -> out: [outer, own shard of a, middle, b whole, inner] if split_first, else
 * in: [outer, own shard of a, middle, b whole, inner] -> out: [outer, a whole, middle, own shard
 * of b, inner]. */
void tpc_all_to_all(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                    int64_t outer, int64_t a, int64_t middle, int64_t b, int64_t inner,
                    int32_t split_first);
/* Moves a dimension of blocks * n * unit elements between ranks, from one split to another, and
 * shifts each block. A split is (blocks * n{A} * unit){B}: the axes A split n, then the axes B
 * split the remaining product. `splits` contains the lists A and B of the input, then those of the
 * output, as indices into the order; each list ends with -1. The group is the union of A and B,
 * which is the same for input and output. in: [outer, own shard of blocks * n * unit, inner] ->
 * out: the same shape. Element i of a block of the result is element (first + i) mod (n * unit) of
 * that block of the input. Only elements that another rank has are sent. */
void tpc_collective_permute(tpc_context *ctx, const int32_t *splits, int32_t dtype, const void *in,
                            void *out, int64_t outer, int64_t blocks, int64_t n, int64_t unit,
                            int64_t inner, int64_t first);
/* Redistributes a tensor: each rank receives the elements that it needs and does not have.
 * `layout` contains the number of dimensions; for each dimension the number of its factors; for
 * each factor the axes (indices into the order) that split it before and, in another list, after;
 * then two lists of the axes that split the remaining product of the factors, before and after.
 * Each list ends with -1. `sizes` contains the sizes of all factors, in order. The group is the
 * union of all listed axes. in: own shard before, out: own shard after, both in row-major order of
 * the whole tensor. Members with equal coordinates on the axes of the split before have
 * the same elements; the description of tpc.exchange defines which of them sends. */
void tpc_exchange(tpc_context *ctx, const int32_t *layout, int32_t dtype, const void *in, void *out,
                  const int64_t *sizes);
/* Exchange of tokens with the ranks of their experts. A row has `width` elements, of which
 * `experts` from `column` on are weights of the experts, split over the axes `split` (indices into
 * the order, one after the other, terminated by -1). in: [own shard of n, inner] -> out: [n,
 * inner], with inner / width rows in each of the n parts. A row is sent to a member if a weight of
 * the member's experts is not 0; other rows, and weights of other experts, are 0 in `out`. Floats
 * of 32 or 16 bits. On devices the host waits for the sizes of messages. */
void tpc_dispatch(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                  int64_t n, int64_t inner, int64_t width, int64_t column, int64_t experts,
                  const int32_t *split);
/* Same as a reduce-scatter with TPC_SUM of [n, inner] to [own shard of n, inner]; rows of zeros are
 * not sent. 16-bit elements are added in f32 and rounded once. */
void tpc_combine(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in, void *out,
                 int64_t n, int64_t inner, int64_t width);
/* root: index in the group */
void tpc_broadcast(tpc_context *ctx, uint32_t axes, int32_t dtype, void *data, int64_t count,
                   int64_t root);
/* Sends to, or receives from, the rank whose coordinate on `axis` (an index into the order) is
 * `peer` and whose other coordinates are this rank's. Messages of one pair arrive in order. send
 * returns when `data` may be reused. With count 0 nothing is sent. */
void tpc_send(tpc_context *ctx, int32_t axis, int32_t dtype, const void *data, int64_t count,
              int64_t peer);
void tpc_recv(tpc_context *ctx, int32_t axis, int32_t dtype, void *data, int64_t count,
              int64_t peer);

/* ---- entry ---- */

/* Entry point that an executable's main calls. Parses the command line, reads inputs, starts the
 * ranks, and writes outputs. Returns the exit status. */
int tpc_main(const tpc_program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
