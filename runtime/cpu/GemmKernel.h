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

constexpr int vecsPerPanel = 2;
constexpr int panelWidth = vecsPerPanel * lanes;
constexpr int maxTileRows = TPC_TILE_ROWS;
constexpr int64_t kBlock = 768;

/// One step of k in `multiply`: `x` contains the address of every third row; `b` is the address of
/// this k in the first panel.
template <int R, int P>
TPC_INLINE void multiplyStep(Vec (&sums)[R][P * vecsPerPanel], const float *const (&x)[(R + 2) / 3],
                             int64_t xRow, const float *b, const float *ahead,
                             int64_t panelStride) {
  Vec right[P * vecsPerPanel];
  for (int p = 0; p < P; ++p) {
    for (int v = 0; v < vecsPerPanel; ++v)
      right[p * vecsPerPanel + v] = load(b + p * panelStride + v * lanes);
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
template <int R, int P>
TPC_INLINE void multiply(Vec (&sums)[R][P * vecsPerPanel], const float *x, int64_t xRow,
                         int64_t xStep, const float *b, int64_t bStride, int64_t panelStride,
                         int64_t k) {
  // Prefetch distance in steps of k. With 16-float vectors the distance is larger, and the L1 cache
  // is reserved for the operands: 26 GB/s instead of 19 at one row, 1.3 times as fast at twelve.
  constexpr int unrolled = 4, prefetched = lanes == 16 ? 32 : 16;
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
      const float *panel = b + u * bStride;
      multiplyStep<R, P>(sums, at, xRow, panel, panel + prefetched * bStride, panelStride);
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
    multiplyStep<R, P>(sums, rows, xRow, b, b, panelStride);
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

/// Computes one register tile over one block of k. `partial` stores the sums between blocks, with
/// `partialStride` between rows.
template <int R, int P>
void tile(const GemmJob &job, int64_t row, int64_t panel, int64_t k0, int64_t k1, float *partial,
          int64_t partialStride) {
  constexpr int vecs = P * vecsPerPanel;
  if (k1 == job.k)
    prefetchResult(job, row, R, panel * panelWidth, P * panelWidth);
  Vec sums[R][vecs];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < vecs; ++v)
      sums[r][v] = k0 ? load(partial + r * partialStride + v * lanes) : Vec{};
  multiply<R, P>(sums, job.x + row * job.xStride + k0, job.xStride, 1,
                 job.packed + panel * panelWidth * job.k + k0 * panelWidth, panelWidth,
                 panelWidth * job.k, k1 - k0);
  if (k1 < job.k) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < vecs; ++v)
        store(partial + r * partialStride + v * lanes, sums[r][v]);
    return;
  }
  finishSums<R, vecs>(job, sums, row, panel * panelWidth);
}

/// Calls tile<rows, P>.
template <int P, int R = maxTileRows>
TPC_INLINE void tileOf(int64_t rows, const GemmJob &job, int64_t row, int64_t panel, int64_t k0,
                       int64_t k1, float *partial, int64_t partialStride) {
  if constexpr (R > 1) {
    if (rows < R)
      return tileOf<P, R - 1>(rows, job, row, panel, k0, k1, partial, partialStride);
  }
  tile<R, P>(job, row, panel, k0, k1, partial, partialStride);
}

inline void gemm(const GemmJob &job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1) {
  alignas(64) float partial[maxGemmRows * maxGemmPanels * panelWidth];
  constexpr int64_t stride = maxGemmPanels * panelWidth;
  int64_t blocks = job.k ? (job.k + kBlock - 1) / kBlock : 1;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t k0 = job.k * block / blocks, k1 = job.k * (block + 1) / blocks;
    // Few rows do not fill the pipeline, so more panels are computed at a time.
    int64_t panelStep = row1 - row0 == 1 ? 4 : row1 - row0 <= maxTileRows / 2 ? 2 : 1;
    for (int64_t panel = panel0; panel < panel1;) {
      int64_t width = panel1 - panel >= panelStep ? panelStep : 1;
      int64_t tiles = (row1 - row0 + maxTileRows - 1) / maxTileRows;
      for (int64_t t = 0; t < tiles; ++t) {
        int64_t row = row0 + (row1 - row0) * t / tiles;
        int64_t rows = row0 + (row1 - row0) * (t + 1) / tiles - row;
        float *sums = partial + (row - row0) * stride + (panel - panel0) * panelWidth;
        if (width == 4)
          tile<1, 4>(job, row, panel, k0, k1, sums, stride);
        else if (width == 2)
          tileOf<2, maxTileRows / 2>(rows, job, row, panel, k0, k1, sums, stride);
        else
          tileOf<1>(rows, job, row, panel, k0, k1, sums, stride);
      }
      panel += width;
    }
  }
}

/// Transposes a square of vectors in place: log2(lanes) rounds, each of which interleaves the first
/// half of the rows with the second.
TPC_INLINE void transpose(Vec (&rows)[lanes]) {
  for (int round = 1; round < lanes; round *= 2) {
    Vec next[lanes];
    for (int i = 0; i < lanes / 2; ++i) {
      next[2 * i] = interleaveLow(rows[i], rows[i + lanes / 2]);
      next[2 * i + 1] = interleaveHigh(rows[i], rows[i + lanes / 2]);
    }
    for (int i = 0; i < lanes; ++i)
      rows[i] = next[i];
  }
}

inline void packTransposed(const float *rows, int64_t k, int64_t n, int64_t column0, float *panel) {
  for (int v = 0; v < vecsPerPanel; ++v) {
    int64_t column = column0 + v * lanes;
    int64_t step = 0;
    if (n - column >= lanes)
      for (; step + lanes <= k; step += lanes) {
        Vec square[lanes];
        for (int i = 0; i < lanes; ++i)
          square[i] = load(rows + (column + i) * k + step);
        transpose(square);
        for (int i = 0; i < lanes; ++i)
          store(panel + (step + i) * panelWidth + v * lanes, square[i]);
      }
    for (; step < k; ++step)
      for (int i = 0; i < lanes; ++i)
        panel[step * panelWidth + v * lanes + i] =
            column + i < n ? rows[(column + i) * k + step] : 0.0f;
  }
}

/// Multiplies rows [row, row + R) by rows [column, column + V * lanes) of a dense table[n, k].
/// Squares of the table are transposed in registers: lanes are columns, and sums have the order of
/// `multiply`, one step of k after the other. Rows beyond the table repeat its last row.
template <int R, int V>
TPC_INLINE void tileTransposed(const GemmJob &job, const float *table, int64_t row,
                               int64_t column) {
  Vec sums[R][V] = {};
  const float *x = job.x + row * job.xStride, *rows[V][lanes];
  for (int v = 0; v < V; ++v)
    for (int i = 0; i < lanes; ++i) {
      int64_t at = column + v * lanes + i;
      rows[v][i] = table + (at < job.n ? at : job.n - 1) * job.k;
    }
  // Prefetches the next tile's part of the table into the L2 cache while this one is used, line by
  // line in memory order. With this, the table is read at 26 GB/s instead of 13; memory gives 27.
  constexpr int lineWidth = 16;
  const float *next = rows[0][0] + (column + 2 * V * lanes <= job.n ? V * lanes * job.k : 0);
  int64_t step = 0;
  for (; step + lanes <= job.k; step += lanes)
    for (int v = 0; v < V; ++v) {
      Vec square[lanes];
      for (int i = 0; i < lanes; ++i) {
        square[i] = load(rows[v][i] + step);
        if (int64_t at = (v * lanes + i) * lanes; at % lineWidth == 0)
          __builtin_prefetch(next + step * V * lanes + at, /*rw=*/0, /*locality=*/2);
      }
      transpose(square);
      for (int i = 0; i < lanes; ++i)
        for (int r = 0; r < R; ++r)
          sums[r][v] += splat(x[r * job.xStride + step + i]) * square[i];
    }
  for (; step < job.k; ++step)
    for (int v = 0; v < V; ++v) {
      Vec right;
      for (int i = 0; i < lanes; ++i)
        right[i] = rows[v][i][step];
      for (int r = 0; r < R; ++r)
        sums[r][v] += splat(x[r * job.xStride + step]) * right;
    }
  finishSums<R, V>(job, sums, row, column);
}

inline void gemmTransposed(const GemmJob &job, const float *table, int64_t column0,
                           int64_t column1) {
  for (int64_t column = column0; column < column1;) {
    bool two = job.m == 1 && column1 - column >= 2 * lanes;
    // Computes all rows before the next columns, whose part of the table stays in the L1 and L2
    // caches.
    for (int64_t row = 0; row < job.m;) {
      int64_t left = job.m - row;
      if (two)
        tileTransposed<1, 2>(job, table, row, column), row += 1;
      else if (left >= 4)
        tileTransposed<4, 1>(job, table, row, column), row += 4;
      else if (left >= 2)
        tileTransposed<2, 1>(job, table, row, column), row += 2;
      else
        tileTransposed<1, 1>(job, table, row, column), row += 1;
    }
    column += two ? 2 * lanes : lanes;
  }
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
