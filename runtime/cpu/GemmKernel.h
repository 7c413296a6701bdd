//===- GemmKernel.h - Matrix multiplication on packed panels --------------===//
//
// A register tile has R rows of x by P panels. Rows of x are read in place, with one broadcast per
// row and step of k. A panel is read forward, so that with one row (decoding) the matmul runs at
// memory speed. k is split into blocks, so that a block of a panel stays in the L1 and L2 caches
// while all rows of the task use it. Between blocks, sums are stored in a buffer of the task,
// because `out` may alias `residual`, which is read later.
//
// Included by KernelsImpl.h, which documents TPC_LANES.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_GEMMKERNEL_H
#define TPC_RT_CPU_GEMMKERNEL_H

#include "cpu/Kernels.h"
#include "cpu/Simd.h"

namespace tpc::rt::TPC_ISA {

/// Element types of right operands. Conversion to f32 is exact, so that sums have the bits of the
/// same matmul with weights in f32.
struct SingleWeights {
  typedef float Element;
  static TPC_INLINE Vec read(const float *p) { return load(p); }
  static TPC_INLINE float readOne(const float *p) { return *p; }
  /// Rows of a table are transposed in units of 32 bits: here one element.
  static constexpr int perUnit = 1;
  static TPC_INLINE Vec element(Vec units, int) { return units; }
};
struct HalfWeights {
  typedef uint16_t Element;
  static TPC_INLINE Vec read(const uint16_t *p) {
    return widenHalf(*reinterpret_cast<const UnalignedShortVec *>(p));
  }
  static TPC_INLINE float readOne(const uint16_t *p) { return widenHalf(ShortVec{*p})[0]; }
  static constexpr int perUnit = 2;
  static TPC_INLINE Vec element(Vec units, int i) {
    return widenHalf(__builtin_convertvector(bitsOf(units) >> 16 * i, ShortVec));
  }
};
struct BfloatWeights {
  typedef uint16_t Element;
  static TPC_INLINE Vec read(const uint16_t *p) {
    return widenBfloat(*reinterpret_cast<const UnalignedShortVec *>(p));
  }
  static TPC_INLINE float readOne(const uint16_t *p) { return widenBfloat(ShortVec{*p})[0]; }
  static constexpr int perUnit = 2;
  static TPC_INLINE Vec element(Vec units, int i) {
    return i == 0 ? floatOf(bitsOf(units) << 16) : floatOf(bitsOf(units) & -0x10000);
  }
};

/// Calls doType with the element type `dtype` of a right operand.
template <typename DoType> TPC_INLINE void withWeights(int32_t dtype, DoType doType) {
  if (dtype == TPC_F16)
    doType(HalfWeights());
  else if (dtype == TPC_BF16)
    doType(BfloatWeights());
  else
    doType(SingleWeights());
}

constexpr int vecsPerPanel = 2;
constexpr int panelWidth = vecsPerPanel * lanes;
constexpr int maxTileRows = TPC_TILE_ROWS;
constexpr int64_t kBlock = 768;

/// One step of k in `multiply`: `x` contains the address of every third row; `b` is the address of
/// this k in the first panel.
template <int R, int P, typename W>
TPC_INLINE void multiplyStep(Vec (&sums)[R][P * vecsPerPanel], const float *const (&x)[(R + 2) / 3],
                             int64_t xRow, const typename W::Element *b,
                             const typename W::Element *ahead, int64_t panelStride) {
  Vec right[P * vecsPerPanel];
  for (int p = 0; p < P; ++p) {
    for (int v = 0; v < vecsPerPanel; ++v)
      right[p * vecsPerPanel + v] = W::read(b + p * panelStride + v * lanes);
    __builtin_prefetch(ahead + p * panelStride, /*rw=*/0, /*locality=*/lanes == 16 ? 2 : 3);
  }
  for (int r = 0; r < R; ++r) {
    Vec left = splat(x[r / 3][r % 3 * xRow]);
    for (int v = 0; v < P * vecsPerPanel; ++v)
      sums[r][v] += left * right[v];
  }
}

/// Adds x[R, k] * panel[k, P panels] to the sums. `panelStride` is the distance between panels of
/// one tile, `bStride` between consecutive k of a panel. Element (row, k) of x is at x[row * xRow +
/// k * xStep].
///
/// Addresses are formed so that a step of k has little more than its loads, broadcasts and
/// multiplications (20 instructions for 12 multiplications in a tile of 6 by 2 vectors): a core
/// shared with another hardware thread has few spare issue slots.
template <int R, int P, typename W = SingleWeights>
TPC_INLINE void multiply(Vec (&sums)[R][P * vecsPerPanel], const float *x, int64_t xRow,
                         int64_t xStep, const typename W::Element *b, int64_t bStride,
                         int64_t panelStride, int64_t k) {
  // Prefetch distance in steps of k of f32. With 16-float vectors the distance is larger, and the
  // L1 cache is reserved for the operands: 26 GB/s instead of 19 at one row, 1.3 times as fast at
  // twelve.
  constexpr int steps = lanes == 16 ? 32 : 16;
  constexpr int unrolled = 4, prefetched = steps * 4 / sizeof(typename W::Element);
  const float *rows[(R + 2) / 3];
  for (int i = 0; i < (R + 2) / 3; ++i)
    rows[i] = x + 3 * i * xRow;
  int64_t i = 0;
#pragma clang loop unroll(disable)
  for (; i + unrolled <= k; i += unrolled) {
    for (int u = 0; u < unrolled; ++u) {
      const float *at[(R + 2) / 3];
      for (int j = 0; j < (R + 2) / 3; ++j)
        at[j] = rows[j] + u * xStep;
      const typename W::Element *panel = b + u * bStride;
      multiplyStep<R, P, W>(sums, at, xRow, panel, panel + prefetched * bStride, panelStride);
    }
    for (const float *&row : rows) {
      row += unrolled * xStep;
      // Prevents the compiler from computing each broadcast address from a single base address.
      __asm__("" : "+r"(row));
    }
    b += unrolled * bStride;
  }
#pragma clang loop unroll(disable)
  for (; i < k; ++i) {
    multiplyStep<R, P, W>(sums, rows, xRow, b, b, panelStride);
    for (const float *&row : rows)
      row += xStep;
    b += bStride;
  }
}

TPC_INLINE Vec activated(Vec v, int32_t epilogue) {
  switch (epilogue) {
  case TPC_EPILOGUE_GELU_ERF:
    return geluErf(Arithmetic(), v);
  case TPC_EPILOGUE_GELU_TANH:
    return geluTanh(Arithmetic(), v);
  case TPC_EPILOGUE_SILU:
    return silu(Arithmetic(), v);
  case TPC_EPILOGUE_RELU:
    return relu(Arithmetic(), v);
  default:
    return v;
  }
}

/// Applies bias, epilogue and residual to one vector of one row, with `count` valid elements.
TPC_INLINE void finish(const GemmJob &job, Vec v, int64_t row, int64_t column, int64_t count,
                       int32_t epilogue) {
  float *out = job.out + row * job.outStride + column;
  const float *residual = job.residual ? job.residual + row * job.outStride + column : nullptr;
  if (count >= lanes) {
    if (job.bias)
      v += load(job.bias + column);
    v = activated(v, epilogue);
    if (residual)
      v += load(residual);
    store(out, v);
    return;
  }
  float buffer[lanes] = {};
  if (job.bias) {
    for (int i = 0; i < count; ++i)
      buffer[i] = job.bias[column + i];
    v += load(buffer);
  }
  v = activated(v, epilogue);
  store(buffer, v);
  for (int i = 0; i < count; ++i)
    out[i] = residual ? buffer[i] + residual[i] : buffer[i];
}

/// Applies bias, epilogue and residual to a tile. Not inlined, because exp and erf are long.
template <int32_t Epilogue>
__attribute__((noinline)) void finishTile(const GemmJob &job, const float *sums, int rows, int vecs,
                                          int64_t row0, int64_t column0) {
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vecs; ++v) {
      int64_t column = column0 + v * lanes;
      if (column < job.n)
        finish(job, load(sums + (r * vecs + v) * lanes), row0 + r, column, job.n - column,
               Epilogue);
    }
}

/// Writes the sums of R rows and `vecs` vectors of columns.
template <int R, int vecs>
TPC_INLINE void finishSums(const GemmJob &job, const Vec (&sums)[R][vecs], int64_t row,
                           int64_t column) {
  alignas(64) float done[R * vecs * lanes];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecs; ++v)
      store(done + (r * vecs + v) * lanes, sums[r][v]);
  switch (job.epilogue) {
  case TPC_EPILOGUE_GELU_ERF:
    return finishTile<TPC_EPILOGUE_GELU_ERF>(job, done, R, vecs, row, column);
  case TPC_EPILOGUE_GELU_TANH:
    return finishTile<TPC_EPILOGUE_GELU_TANH>(job, done, R, vecs, row, column);
  case TPC_EPILOGUE_SILU:
    return finishTile<TPC_EPILOGUE_SILU>(job, done, R, vecs, row, column);
  case TPC_EPILOGUE_RELU:
    return finishTile<TPC_EPILOGUE_RELU>(job, done, R, vecs, row, column);
  default:
    return finishTile<TPC_EPILOGUE_NONE>(job, done, R, vecs, row, column);
  }
}

/// Prefetches the data that finishTile reads and writes. Rows of the result are pages apart, so the
/// hardware prefetcher does not help.
TPC_INLINE void prefetchResult(const GemmJob &job, int64_t row, int rows, int64_t column,
                               int columns) {
  constexpr int lineWidth = 16;
  for (int r = 0; r < rows; ++r) {
    int64_t at = (row + r) * job.outStride + column;
    for (int c = 0; c < columns + lineWidth - 1; c += lineWidth) { // lines need not start at `at`
      int64_t in = at + (c < columns ? c : columns - 1);
      __builtin_prefetch(job.out + in, 1);
      if (job.residual)
        __builtin_prefetch(job.residual + in);
    }
  }
}

/// Computes one register tile over steps [k0, k1) of k. `b` is the address of step k0 in the first
/// panel, `panelStride` the distance between panels. `partial` stores the sums between blocks of k,
/// with `partialStride` between rows.
template <int R, int P, typename W>
void tile(const GemmJob &job, int64_t row, int64_t panel, int64_t k0, int64_t k1,
          const typename W::Element *b, int64_t panelStride, float *partial,
          int64_t partialStride) {
  constexpr int vecs = P * vecsPerPanel;
  if (k1 == job.k)
    prefetchResult(job, row, R, panel * panelWidth, P * panelWidth);
  Vec sums[R][vecs];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecs; ++v)
      sums[r][v] = k0 ? load(partial + r * partialStride + v * lanes) : Vec{};
  multiply<R, P, W>(sums, job.x + row * job.xStride + k0, job.xStride, 1, b, panelWidth,
                    panelStride, k1 - k0);
  if (k1 < job.k) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < vecs; ++v)
        store(partial + r * partialStride + v * lanes, sums[r][v]);
    return;
  }
  finishSums<R, vecs>(job, sums, row, panel * panelWidth);
}

/// Calls tile<rows, P> on f32.
template <int P, int R = maxTileRows>
TPC_INLINE void tileOf(int64_t rows, const GemmJob &job, int64_t row, int64_t panel, int64_t k0,
                       int64_t k1, const float *b, int64_t panelStride, float *partial,
                       int64_t partialStride) {
  if constexpr (R > 1) {
    if (rows < R)
      return tileOf<P, R - 1>(rows, job, row, panel, k0, k1, b, panelStride, partial,
                              partialStride);
  }
  tile<R, P, SingleWeights>(job, row, panel, k0, k1, b, panelStride, partial, partialStride);
}

/// Converts a block of one panel to f32. Many rows are then multiplied by it.
template <typename W>
TPC_INLINE const float *widenPanel(const typename W::Element *b, int64_t steps, float *widened) {
  for (int64_t i = 0; i < steps * panelWidth; i += lanes)
    store(widened + i, W::read(b + i));
  return widened;
}

/// For one row, 16-bit weights are widened when they are loaded. For more rows, they are widened in
/// advance, one block of a panel at a time.
template <typename W>
void gemmOf(const GemmJob &job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1) {
  constexpr bool isNarrow = sizeof(typename W::Element) < sizeof(float);
  alignas(64) float partial[maxGemmRows * maxGemmPanels * panelWidth];
  alignas(64) float widened[isNarrow ? kBlock * panelWidth : 1];
  constexpr int64_t stride = maxGemmPanels * panelWidth;
  const auto *packed = static_cast<const typename W::Element *>(job.packed);
  int64_t blocks = job.k ? (job.k + kBlock - 1) / kBlock : 1;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t k0 = job.k * block / blocks, k1 = job.k * (block + 1) / blocks;
    // Few rows do not fill the pipeline, so more panels are computed at a time.
    bool isOneRow = row1 - row0 == 1;
    int64_t panelStep = isOneRow ? 4 : !isNarrow && row1 - row0 <= maxTileRows / 2 ? 2 : 1;
    for (int64_t panel = panel0; panel < panel1;) {
      int64_t width = panel1 - panel >= panelStep ? panelStep : 1, panelStride = panelWidth * job.k;
      const typename W::Element *b = packed + panel * panelStride + k0 * panelWidth;
      if (isOneRow) {
        float *sums = partial + (panel - panel0) * panelWidth;
        if (width == 4)
          tile<1, 4, W>(job, row0, panel, k0, k1, b, panelStride, sums, stride);
        else
          tile<1, 1, W>(job, row0, panel, k0, k1, b, panelStride, sums, stride);
        panel += width;
        continue;
      }
      const float *right = nullptr;
      if constexpr (isNarrow)
        right = widenPanel<W>(b, k1 - k0, widened);
      else
        right = b;
      int64_t tiles = (row1 - row0 + maxTileRows - 1) / maxTileRows;
      for (int64_t t = 0; t < tiles; ++t) {
        int64_t row = row0 + (row1 - row0) * t / tiles;
        int64_t rows = row0 + (row1 - row0) * (t + 1) / tiles - row;
        float *sums = partial + (row - row0) * stride + (panel - panel0) * panelWidth;
        if (width == 2)
          tileOf<2, maxTileRows / 2>(rows, job, row, panel, k0, k1, right, panelStride, sums,
                                     stride);
        else
          tileOf<1>(rows, job, row, panel, k0, k1, right, panelStride, sums, stride);
      }
      panel += width;
    }
  }
}

inline void gemm(const GemmJob &job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1) {
  withWeights(job.weights,
              [&](auto weights) { gemmOf<decltype(weights)>(job, row0, row1, panel0, panel1); });
}

/// Transposes a square of vectors in place: log2(lanes) steps, each of which interleaves the first
/// half of the rows with the second.
TPC_INLINE void transpose(Vec (&rows)[lanes]) {
  for (int done = 1; done < lanes; done *= 2) {
    Vec next[lanes];
    for (int i = 0; i < lanes / 2; ++i) {
      next[2 * i] = interleaveLow(rows[i], rows[i + lanes / 2]);
      next[2 * i + 1] = interleaveHigh(rows[i], rows[i + lanes / 2]);
    }
    for (int i = 0; i < lanes; ++i)
      rows[i] = next[i];
  }
}

template <typename W>
void packTransposedOf(const typename W::Element *rows, int64_t k, int64_t n, int64_t column0,
                      float *panel) {
  for (int v = 0; v < vecsPerPanel; ++v) {
    int64_t column = column0 + v * lanes;
    int64_t step = 0;
    if (n - column >= lanes)
      for (; step + lanes <= k; step += lanes) {
        Vec square[lanes];
        for (int i = 0; i < lanes; ++i)
          square[i] = W::read(rows + (column + i) * k + step);
        transpose(square);
        for (int i = 0; i < lanes; ++i)
          store(panel + (step + i) * panelWidth + v * lanes, square[i]);
      }
    for (; step < k; ++step)
      for (int i = 0; i < lanes; ++i)
        panel[step * panelWidth + v * lanes + i] =
            column + i < n ? W::readOne(rows + (column + i) * k + step) : 0.0f;
  }
}

inline void packTransposed(const void *rows, int32_t dtype, int64_t k, int64_t n, int64_t column0,
                           float *panel) {
  withWeights(dtype, [&](auto weights) {
    using W = decltype(weights);
    packTransposedOf<W>(static_cast<const typename W::Element *>(rows), k, n, column0, panel);
  });
}

/// Multiplies rows [row, row + R) by rows [column, column + V * lanes) of a dense table[n, k].
/// Squares of the table are transposed in registers: lanes are columns, and sums have the order of
/// `multiply`, one step of k after the other. Rows beyond the table repeat its last row.
template <int R, int V, typename W>
TPC_INLINE void tileTransposed(const GemmJob &job, const typename W::Element *table, int64_t row,
                               int64_t column) {
  typedef typename W::Element Element;
  Vec sums[R][V] = {};
  const float *x = job.x + row * job.xStride;
  const Element *rows[V][lanes];
  for (int v = 0; v < V; ++v)
    for (int i = 0; i < lanes; ++i) {
      int64_t at = column + v * lanes + i;
      rows[v][i] = table + (at < job.n ? at : job.n - 1) * job.k;
    }
  // Prefetches the next tile's part of the table into the L2 cache while this one is used, line by
  // line in memory order. With this, the table is read at 26 GB/s instead of 13; memory gives 27.
  constexpr int lineWidth = 64 / sizeof(Element);
  const Element *next = rows[0][0] + (column + 2 * V * lanes <= job.n ? V * lanes * job.k : 0);
  constexpr int width = lanes * W::perUnit;
  int64_t step = 0;
  for (; step + width <= job.k; step += width)
    for (int v = 0; v < V; ++v) {
      Vec square[lanes];
      for (int i = 0; i < lanes; ++i) {
        square[i] = load(reinterpret_cast<const float *>(rows[v][i] + step));
        if (int64_t at = (v * lanes + i) * width; at % lineWidth == 0)
          __builtin_prefetch(next + step * V * lanes + at, /*rw=*/0, /*locality=*/2);
      }
      transpose(square);
      for (int i = 0; i < lanes; ++i)
        for (int j = 0; j < W::perUnit; ++j)
          for (int r = 0; r < R; ++r)
            sums[r][v] +=
                splat(x[r * job.xStride + step + i * W::perUnit + j]) * W::element(square[i], j);
    }
  for (; step < job.k; ++step)
    for (int v = 0; v < V; ++v) {
      Vec right;
      for (int i = 0; i < lanes; ++i)
        right[i] = W::readOne(rows[v][i] + step);
      for (int r = 0; r < R; ++r)
        sums[r][v] += splat(x[r * job.xStride + step]) * right;
    }
  finishSums<R, V>(job, sums, row, column);
}

template <typename W>
void gemmTransposedOf(const GemmJob &job, const typename W::Element *table, int64_t column0,
                      int64_t column1) {
  for (int64_t column = column0; column < column1;) {
    bool two = job.m == 1 && column1 - column >= 2 * lanes;
    // Computes all rows before the next columns, whose part of the table stays in the L1 and L2
    // caches.
    for (int64_t row = 0; row < job.m;) {
      int64_t left = job.m - row;
      if (two)
        tileTransposed<1, 2, W>(job, table, row, column), row += 1;
      else if (left >= 4)
        tileTransposed<4, 1, W>(job, table, row, column), row += 4;
      else if (left >= 2)
        tileTransposed<2, 1, W>(job, table, row, column), row += 2;
      else
        tileTransposed<1, 1, W>(job, table, row, column), row += 1;
    }
    column += two ? 2 * lanes : lanes;
  }
}

inline void gemmTransposed(const GemmJob &job, const void *table, int64_t column0,
                           int64_t column1) {
  withWeights(job.weights, [&](auto weights) {
    using W = decltype(weights);
    gemmTransposedOf<W>(job, static_cast<const typename W::Element *>(table), column0, column1);
  });
}

inline void activate(const float *x, float *out, int64_t count, int32_t epilogue) {
  for (int64_t i = 0; i < count; i += lanes) {
    if (count - i >= lanes) {
      store(out + i, activated(load(x + i), epilogue));
      continue;
    }
    float buffer[lanes] = {};
    for (int64_t j = i; j < count; ++j)
      buffer[j - i] = x[j];
    store(buffer, activated(load(buffer), epilogue));
    for (int64_t j = i; j < count; ++j)
      out[j] = buffer[j - i];
  }
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_GEMMKERNEL_H
