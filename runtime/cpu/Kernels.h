//===- Kernels.h - Kernel table per instruction set -----------------------===//
//
// KernelsImpl.h is compiled for several instruction sets; `kernels()` selects the best that this
// machine supports. Kernels use plain data and one thread: the callers (Matmul.cpp, Attention.cpp)
// split work into tasks.
//
// All matmuls except those in integers add along the reduced dimension in ascending order, whatever
// the number of rows, columns and threads. A row therefore has the same bits in every batch, and
// with every number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_KERNELS_H
#define TPC_RT_CPU_KERNELS_H

#include "tpc/runtime.h"
#include <cstdint>

namespace tpc::rt {

/// out[m, n] = epilogue(x[m, k] * w[k, n] + bias[n]) + residual[m, n]. The right operand is packed:
/// panels of `panelWidth` columns, each [k, panelWidth], the last one padded with zeros.
struct GemmJob {
  const float *x;
  int64_t xStride; ///< elements between rows
  const void *packed;
  const float *bias, *residual; ///< or null
  float *out;                   ///< may alias `residual`
  int64_t outStride;            ///< stride of `residual` too
  int64_t m, k, n;
  int32_t epilogue;
  int32_t weights = TPC_F32; ///< type of the right operand: f32, f16 or bf16
};

/// Maximum rows and panels of a `gemm` task.
constexpr int64_t maxGemmRows = 144, maxGemmPanels = 4;

/// Maximum rows for which `gemmTransposed` is faster than packing a panel and multiplying by it.
constexpr int64_t maxTransposedRows = 8;

/// Maximum keys of a `decode` task; tasks start at multiples of it.
constexpr int64_t decodeKeys = 256;

/// Numbers of floats of `scratch` and `sums` of an `attentionGrad` task, and of the units that
/// parts of a KV head consist of: blocks of queries of its query heads.
struct AttentionGradSizes {
  int64_t scratch, sums, units;
};

/// Units [begin, end) of a KV head.
struct AttentionGradPart {
  int64_t batch, kvHead, begin, end;
};

struct KernelTable {
  const char *name; ///< "generic", "avx2", "avx512"
  int panelWidth;
  int rowStep; ///< rows of a register tile; tasks should have multiples of it
  /// Number of queries of an `attention` task.
  int queryBlock;

  /// Computes rows [row0, row1) of panels [panel0, panel1).
  void (*gemm)(const GemmJob &job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1);

  /// Packs columns [column0, column0 + panelWidth) of the transpose of rows[n, k]: a panel of
  /// `gemm` in f32. `dtype` is the type of `rows`: f32, f16 or bf16.
  void (*packTransposed)(const void *rows, int32_t dtype, int64_t k, int64_t n, int64_t column0,
                         float *panel);

  /// Computes columns [column0, column1), the first a multiple of panelWidth, of a matmul with the
  /// transpose of table[n, k] of type job.weights, bit-identical to `gemm`. Suited to few
  /// rows, because it reads the table once and copies nothing.
  void (*gemmTransposed)(const GemmJob &job, const void *table, int64_t column0, int64_t column1);

  /// Whether gemmQuantized supports the layout of the packed numbers.
  bool (*readsQuantized)(const tpc_quantized_args &args);
  /// Computes columns [column0, column1), the first a multiple of 2 * panelWidth, bit-identical to
  /// `gemm` with the matrix in f32. Suited to few rows.
  void (*gemmQuantized)(const tpc_quantized_args &args, int64_t column0, int64_t column1);
  /// Computes columns [column0, column0 + panelWidth) of the matrix: a panel of `gemm` in f32.
  void (*dequantize)(const tpc_quantized_args &args, int64_t column0, float *panel);

  /// The next three functions are matmuls of few rows in integers: elements of x are split into
  /// three 8-bit digits (IntegerKernel.h). This one returns the size in floats of the digits of all
  /// rows; 0 if the layout is not supported.
  int64_t (*digitFloats)(const tpc_quantized_args &args);
  /// Sets the digits. Returns false if an element is not finite.
  bool (*splitDigits)(const tpc_quantized_args &args, float *digits);
  /// Computes columns [column0, column1), the first a multiple of panelWidth.
  void (*gemmIntegers)(const tpc_quantized_args &args, const float *digits, int64_t column0,
                       int64_t column1);

  /// Returns the number of floats of `scratch` for an `attention` task.
  int64_t (*attentionScratch)(const tpc_attention_args &args);
  /// Computes queries [query0, query0 + queryBlock) of one batch entry and one query head.
  void (*attention)(const tpc_attention_args &args, int64_t batch, int64_t head, int64_t query0,
                    float *scratch);

  AttentionGradSizes (*attentionGradSizes)(const tpc_attention_args &args);
  /// Computes dq of a part of the queries of one KV head (tpc_attention_grad), and their `sums` for
  /// dk and dv, which may be null.
  void (*attentionGrad)(const tpc_attention_args &args, const float *dout, float *dq, bool hasKeys,
                        bool hasValues, const AttentionGradPart &part, float *sums, float *scratch);
  /// Adds the sums of all parts of a KV head, in order, for keys [key0, key1).
  void (*addAttentionGrads)(const tpc_attention_args &args, float *dk, float *dv, int64_t batch,
                            int64_t kvHead, const float *sums, int64_t parts, int64_t key0,
                            int64_t key1);

  /// Attention of few queries, split along keys (DecodeAttention.h). Returns the number of floats
  /// of `scratch` for a task, and of its result.
  int64_t (*decodeScratch)(const tpc_attention_args &args);
  int64_t (*decodedFloats)(const tpc_attention_args &args);
  /// Computes all queries of one batch entry and of the query heads that share one KV head, over
  /// keys [key0, key1), at least one.
  void (*decode)(const tpc_attention_args &args, int64_t batch, int64_t kvHead, int64_t key0,
                 int64_t key1, float *scratch, float *decoded);
  /// Combines the results of `parts` tasks, in key order. Tasks without visible keys may be
  /// omitted.
  void (*mergeDecoded)(const tpc_attention_args &args, int64_t batch, int64_t kvHead,
                       const float *decoded, int64_t parts);

  /// out[i] = epilogue(x[i]), as `gemm` applies it.
  void (*activate)(const float *x, float *out, int64_t count, int32_t epilogue);
};

extern const KernelTable genericKernels;
#ifdef __x86_64__
extern const KernelTable avx2Kernels, avx512Kernels;
#endif

/// Whether the processor adds products of bytes in one instruction (AVX-512 VNNI).
bool hasByteProducts();
/// Makes `hasByteProducts` return false, for tests.
void forgetByteProducts(bool forget);

/// Returns the best table for this machine. The environment variable TPC_CPU ("generic", "avx2",
/// "avx512") selects another supported one.
const KernelTable &kernels();

/// Sets the table that `kernels()` returns. Call before anything is packed.
void chooseKernels(const KernelTable &table);

/// Returns the table `name`; null if this machine does not support it.
const KernelTable *kernelsNamed(const char *name);

} // namespace tpc::rt

#endif // TPC_RT_CPU_KERNELS_H
