//===- QuantizedKernel.h - Matrix multiplication by packed numbers --------===//
//
// For layouts in which the numbers of a column are adjacent (tpc_quantized_args without by_rows).
// As in tileTransposed, lanes are columns: squares of 32-bit units, each with 32 / bits numbers of
// one column, are transposed. A number is converted, scaled and multiplied in a register, and never
// stored. Values are rounded to f32 before they are multiplied, and sums have the order of
// `multiply`: results have the bits of the same matmul with a matrix in f32.
//
// Included by KernelsImpl.h, which documents TPC_LANES.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_QUANTIZEDKERNEL_H
#define TPC_RT_CPU_QUANTIZEDKERNEL_H

#include "cpu/GemmKernel.h"

#if defined(__AVX512F__) && TPC_LANES == 16
#define TPC_HAS_TABLES 1
#endif

namespace tpc::rt::TPC_ISA {

/// Blocks whose scales are in the L1 cache at a time.
constexpr int64_t scaleBlocks = 64;

/// Unsigned integers of `Bits` bits, in 32-bit units. With `HasOffset`, they are looked up in a
/// table that subtracts the zero point.
template <int Bits, bool HasOffset> struct PackedNumbers {
  static constexpr int bits = Bits, perUnit = 32 / Bits;
  static constexpr bool hasOffset = HasOffset;
  Vec table = {};

  TPC_INLINE explicit PackedNumbers(float offset) {
    for (int i = 0; i < lanes; ++i)
      table[i] = static_cast<float>(i & ((1 << Bits) - 1)) - offset;
  }
  /// Returns the first number of each unit.
  TPC_INLINE Vec first(IntVec units) const {
#ifdef TPC_HAS_TABLES
    if constexpr (Bits <= 4) // an index has 4 bits
      return __builtin_ia32_permvarsf512(table, units);
#endif
    return __builtin_convertvector(units & ((1 << Bits) - 1), Vec);
  }
};

/// Returns number `index` of packed numbers.
TPC_INLINE float unpack(const uint8_t *bytes, int64_t index, int bits, bool isSigned) {
  int64_t perByte = 8 / bits;
  int range = 1 << bits, q = (bytes[index / perByte] >> index % perByte * bits) & (range - 1);
  return static_cast<float>(isSigned && q >= range / 2 ? q - range : q);
}

/// Copies up to 4 bytes to a unit.
TPC_INLINE int32_t readUnit(const uint8_t *bytes, int64_t count) {
  int32_t unit = 0;
  __builtin_memcpy(&unit, bytes, static_cast<uint64_t>(count < 4 ? count : 4));
  return unit;
}

TPC_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/// A range of blocks of k, of some vectors of columns. Columns beyond n repeat the last one.
struct BlockRange {
  int64_t column, block0, count;
  int vecs;
};

/// Reads floats of blocks: to[count, vecs * lanes]. Prefetches those of the next columns.
template <typename W>
__attribute__((noinline)) void readFloats(const typename W::Element *from, int64_t columnStride,
                                          int64_t blockStride, int64_t n, const BlockRange &range,
                                          float *to) {
  int64_t width = range.vecs * lanes;
  for (int64_t at = 0; at < width; at += lanes) {
    const typename W::Element *rows[lanes];
    for (int i = 0; i < lanes; ++i)
      rows[i] =
          from + lesser(range.column + at + i, n - 1) * columnStride + range.block0 * blockStride;
    int64_t block = 0;
    if (blockStride == 1)
      for (; block + lanes <= range.count; block += lanes) {
        Vec square[lanes];
        for (int i = 0; i < lanes; ++i) {
          square[i] = W::read(rows[i] + block);
          __builtin_prefetch(rows[i] + block + width * columnStride, /*rw=*/0, /*locality=*/2);
        }
        transpose(square);
        for (int i = 0; i < lanes; ++i)
          store(to + (block + i) * width + at, square[i]);
      }
    for (; block < range.count; ++block)
      for (int i = 0; i < lanes; ++i)
        to[block * width + at + i] = W::readOne(rows[i] + block * blockStride);
  }
}

/// Reads scales, or zero points that have the type of scales.
inline void readScales(const tpc_quantized_args &a, const void *from, int64_t columnStride,
                       int64_t blockStride, const BlockRange &range, float *to) {
  withWeights(a.scale_dtype, [&](auto weights) {
    using W = decltype(weights);
    readFloats<W>(static_cast<const typename W::Element *>(from), columnStride, blockStride, a.n,
                  range, to);
  });
}

/// Reads zero points. Signed numbers are read as unsigned ones, larger by half of their range,
/// which is added to their zero points too.
__attribute__((noinline)) inline void readZeros(const tpc_quantized_args &a,
                                                const BlockRange &range, float *to) {
  int64_t width = range.vecs * lanes;
  float middle = a.is_signed ? static_cast<float>(1 << (a.bits - 1)) : 0;
  if (!a.zero) {
    for (int64_t i = 0; i < range.count * width; i += lanes)
      store(to + i, splat(static_cast<float>(a.zero_point) + middle));
    return;
  }
  if (!a.zero_bits)
    return readScales(a, a.zero, a.zero_column_stride, a.zero_block_stride, range, to);
  const auto *bytes = static_cast<const uint8_t *>(a.zero);
  int64_t perByte = 8 / a.zero_bits, perUnit = 4 * perByte;
  bool isDense = a.zero_block_stride == 1 && a.zero_column_stride % perByte == 0;
  int32_t mask = (1 << a.zero_bits) - 1;
  for (int64_t at = 0; at < width; at += lanes) {
    int64_t first[lanes];
    for (int i = 0; i < lanes; ++i)
      first[i] = lesser(range.column + at + i, a.n - 1) * a.zero_column_stride +
                 range.block0 * a.zero_block_stride;
    if (!isDense) {
      for (int64_t block = 0; block < range.count; ++block)
        for (int i = 0; i < lanes; ++i)
          to[block * width + at + i] =
              middle +
              unpack(bytes, first[i] + block * a.zero_block_stride, a.zero_bits, a.is_signed);
      continue;
    }
    // block0 is a multiple of the number of zero points in a unit.
    for (int64_t block = 0; block < range.count; block += perUnit) {
      IntVec units;
      int64_t left = lesser(range.count - block, perUnit);
      for (int i = 0; i < lanes; ++i)
        units[i] = readUnit(bytes + (first[i] + block) / perByte, (left + perByte - 1) / perByte);
      if (a.is_signed) // two's complement plus half of the range
        units ^= static_cast<int32_t>(0xffffffffu / static_cast<uint32_t>(mask) *
                                      (1u << (a.zero_bits - 1)));
      float lowest = a.is_signed ? middle - static_cast<float>(1 << (a.zero_bits - 1)) : 0;
      for (int64_t j = 0; j < left; ++j, units >>= a.zero_bits)
        store(to + (block + j) * width + at, __builtin_convertvector(units & mask, Vec) + lowest);
    }
  }
}

/// Transposes a square of units, `lanes` of each row from `byte` on: vector i of the result has
/// unit i of all rows.
__attribute__((noinline)) inline void transposeUnits(const uint8_t *const *rows, int64_t byte,
                                                     const uint8_t *ahead, float *to,
                                                     int64_t stride) {
  Vec square[lanes];
  for (int i = 0; i < lanes; ++i) {
    square[i] = load(reinterpret_cast<const float *>(rows[i] + byte));
    if (i * lanes * 4 % 64 == 0)
      __builtin_prefetch(ahead + i * lanes * 4, /*rw=*/0, /*locality=*/2);
  }
  transpose(square);
  for (int i = 0; i < lanes; ++i)
    store(to + i * stride, square[i]);
}

/// Whether each block consists of whole units, and their number is a power of two.
inline bool hasUnits(const tpc_quantized_args &a) {
  // Half of the range of signed numbers is not added to float zero points, because that would
  // round.
  if (a.by_rows || (a.is_signed && a.zero && !a.zero_bits))
    return false;
  int64_t perUnit = 32 / a.bits, units = a.block / perUnit;
  return a.block >= a.k || (a.block % perUnit == 0 && (units & (units - 1)) == 0);
}

/// Calls use(step, v, values) for each step of k in order, with the values of V vectors of columns
/// from `column` on. Columns beyond n repeat the last one.
template <int V, typename Q, typename Use>
TPC_INLINE void forEachStep(const tpc_quantized_args &a, int64_t column, const Use &use) {
  constexpr int width = V * lanes;
  alignas(64) float scales[scaleBlocks * width];
  alignas(64) float zeros[Q::hasOffset ? 1 : scaleBlocks * width];
  alignas(64) float units[width * lanes];
  int middle = a.is_signed ? 1 << (a.bits - 1) : 0;
  // XOR with these bits adds half of the range to numbers in two's complement.
  int32_t flips = a.is_signed ? static_cast<int32_t>(0xffffffffu / ((1u << Q::bits) - 1) *
                                                     static_cast<uint32_t>(middle))
                              : 0;
  const Q numbers(Q::hasOffset ? static_cast<float>(a.zero_point + middle) : 0);
  const auto *packed = static_cast<const uint8_t *>(a.packed);
  const uint8_t *rows[width];
  for (int i = 0; i < width; ++i)
    rows[i] = packed + lesser(column + i, a.n - 1) * a.row_bytes;
  // The next columns are prefetched into the L2 cache, line by line in memory order.
  const uint8_t *next = rows[0] + (column + 2 * width <= a.n ? width * a.row_bytes : 0);
  int64_t block = a.k > 0 ? lesser(a.block, a.k) : 1, blocks = (a.k + block - 1) / block;
  int64_t shift = blocks > 1 ? __builtin_ctzll(static_cast<uint64_t>(block / Q::perUnit)) : 62;

  for (int64_t block0 = 0; block0 < blocks; block0 += scaleBlocks) {
    BlockRange range{column, block0, lesser(blocks - block0, scaleBlocks), V};
    readScales(a, a.scale, a.scale_column_stride, a.scale_block_stride, range, scales);
    if constexpr (!Q::hasOffset)
      readZeros(a, range, zeros);
    int64_t k1 = lesser(a.k, (block0 + range.count) * block);
    int64_t unit0 = block0 * block / Q::perUnit, unit1 = k1 / Q::perUnit;
    auto useUnit = [&](int64_t unit, const float *at, int64_t count)
                       __attribute__((always_inline)) {
                         int64_t scaleIndex = ((unit - unit0) >> shift) * width;
                         IntVec q[V];
                         Vec scale[V], zero[V];
                         for (int v = 0; v < V; ++v) {
                           q[v] = bitsOf(load(at + v * lanes)) ^ flips;
                           scale[v] = load(scales + scaleIndex + v * lanes);
                           if constexpr (!Q::hasOffset)
                             zero[v] = load(zeros + scaleIndex + v * lanes);
                         }
#pragma clang loop unroll_count(4)
                         for (int64_t j = 0; j < count; ++j)
                           for (int v = 0; v < V; ++v) {
                             Vec value = numbers.first(q[v]);
                             q[v] >>= Q::bits;
                             if constexpr (!Q::hasOffset)
                               value = value - zero[v];
                             value = value * scale[v];
                             use(unit * Q::perUnit + j, v, value);
                           }
                       };
    int64_t unit = unit0;
    for (; unit + lanes <= unit1; unit += lanes) {
      for (int v = 0; v < V; ++v)
        transposeUnits(rows + v * lanes, unit * 4, next + unit * 4 * width + v * lanes * lanes * 4,
                       units + v * lanes, width);
#pragma clang loop unroll(disable)
      for (int i = 0; i < lanes; ++i)
        useUnit(unit + i, units + i * width, Q::perUnit);
    }
#pragma clang loop unroll(disable)
    for (; unit * Q::perUnit < k1; ++unit) {
      int64_t left = lesser(k1 - unit * Q::perUnit, Q::perUnit);
      for (int i = 0; i < width; ++i) {
        int32_t single = readUnit(rows[i] + unit * 4, (left * Q::bits + 7) / 8);
        __builtin_memcpy(units + i, &single, 4);
      }
      useUnit(unit, units, left);
    }
  }
}

/// Calls doFormat with the type of the packed numbers.
template <typename DoFormat>
TPC_INLINE void withNumbers(const tpc_quantized_args &a, DoFormat doFormat) {
#ifdef TPC_HAS_TABLES
  if (a.bits == 4 && !a.zero)
    return doFormat.template operator()<PackedNumbers<4, true>>();
#endif
  if (a.bits == 8)
    return doFormat.template operator()<PackedNumbers<8, false>>();
  if (a.bits == 4)
    return doFormat.template operator()<PackedNumbers<4, false>>();
  doFormat.template operator()<PackedNumbers<2, false>>();
}

/// Multiplies rows [row, row + R) by V vectors of columns.
template <int R, int V, typename Q>
void tileQuantized(const tpc_quantized_args &a, int64_t row, int64_t column) {
  Vec sums[R][V] = {};
  const float *x = a.x + row * a.k;
  forEachStep<V, Q>(a, column, [&](int64_t step, int v, Vec value) __attribute__((always_inline)) {
    for (int r = 0; r < R; ++r)
      sums[r][v] += splat(x[r * a.k + step]) * value;
  });
  GemmJob job{a.x, a.k, nullptr, a.bias, a.residual, a.out, a.n, a.m, a.k, a.n, a.epilogue};
  finishSums<R, V>(job, sums, row, column);
}

inline void gemmQuantized(const tpc_quantized_args &a, int64_t column0, int64_t column1) {
  withNumbers(a, [&]<typename Q>() {
    constexpr int64_t half = 2 * lanes;
    for (int64_t column = column0; column < column1; column += 2 * half)
      for (int64_t row = 0; row < a.m;) {
        int64_t left = a.m - row;
        if (left == 1) {
          tileQuantized<1, 4, Q>(a, row, column);
          row += 1;
          continue;
        }
        for (int64_t at = column; at < column1 && at < column + 2 * half; at += half)
          if (left >= 4)
            tileQuantized<4, 2, Q>(a, row, at);
          else
            tileQuantized<2, 2, Q>(a, row, at);
        row += left >= 4 ? 4 : 2;
      }
  });
}

TPC_INLINE float numberOf(const tpc_quantized_args &a, int64_t i, int64_t j) {
  const auto *packed = static_cast<const uint8_t *>(a.packed);
  return unpack(packed + (a.by_rows ? i : j) * a.row_bytes, a.by_rows ? j : i, a.bits, a.is_signed);
}

TPC_INLINE float readFloat(const tpc_quantized_args &a, const void *from, int64_t at) {
  float value = 0;
  withWeights(a.scale_dtype, [&](auto weights) {
    using W = decltype(weights);
    value = W::readOne(static_cast<const typename W::Element *>(from) + at);
  });
  return value;
}

inline float scaleOf(const tpc_quantized_args &a, int64_t block, int64_t column) {
  return readFloat(a, a.scale, column * a.scale_column_stride + block * a.scale_block_stride);
}

inline float zeroOf(const tpc_quantized_args &a, int64_t block, int64_t column) {
  if (!a.zero)
    return static_cast<float>(a.zero_point);
  int64_t at = column * a.zero_column_stride + block * a.zero_block_stride;
  return a.zero_bits ? unpack(static_cast<const uint8_t *>(a.zero), at, a.zero_bits, a.is_signed)
                     : readFloat(a, a.zero, at);
}

/// Returns a vector of adjacent packed numbers.
template <int Bits> TPC_INLINE Vec unpackVec(const uint8_t *bytes, bool isSigned) {
  constexpr int perWord = 32 / Bits, words = lanes > perWord ? lanes / perWord : 1;
  int32_t word[words] = {};
  __builtin_memcpy(word, bytes, lanes * Bits / 8);
  IntVec all, shifts;
  for (int l = 0; l < lanes; ++l) {
    all[l] = word[l / perWord];
    shifts[l] = 32 - Bits - l % perWord * Bits;
  }
  // Moves a number to the high bits, and back.
  typedef uint32_t UnsignedVec __attribute__((vector_size(TPC_LANES * 4)));
  all <<= shifts;
  if (isSigned)
    return __builtin_convertvector(all >> (32 - Bits), Vec);
  return __builtin_convertvector(reinterpret_cast<UnsignedVec &>(all) >> (32u - Bits), Vec);
}

/// Computes a panel of a matrix that is packed by rows.
template <int Bits>
void dequantizeRows(const tpc_quantized_args &a, int64_t column0, float *panel) {
  const auto *packed = static_cast<const uint8_t *>(a.packed);
  for (int64_t row0 = 0; row0 < a.k; row0 += a.block) {
    Vec scale[vecsPerPanel], zero[vecsPerPanel];
    for (int v = 0; v < vecsPerPanel; ++v)
      for (int l = 0; l < lanes; ++l) {
        int64_t column = lesser(column0 + v * lanes + l, a.n - 1);
        scale[v][l] = scaleOf(a, row0 / a.block, column);
        zero[v][l] = zeroOf(a, row0 / a.block, column);
      }
    for (int64_t i = row0; i < lesser(a.k, row0 + a.block); ++i)
      for (int v = 0; v < vecsPerPanel; ++v) {
        int64_t column = column0 + v * lanes;
        const uint8_t *row = packed + i * a.row_bytes;
        Vec q = {};
        if (column + lanes <= a.n)
          q = unpackVec<Bits>(row + column * Bits / 8, a.is_signed);
        else
          for (int l = 0; l < lanes && column + l < a.n; ++l)
            q[l] = unpack(row, column + l, Bits, a.is_signed);
        // The hardware does not prefetch rows that are pages apart.
        __builtin_prefetch(row + 16 * a.row_bytes + column * Bits / 8);
        Vec value = q - zero[v];
        store(panel + i * panelWidth + v * lanes, value * scale[v]);
      }
  }
}

inline void dequantize(const tpc_quantized_args &a, int64_t column0, float *panel) {
  if (hasUnits(a))
    return withNumbers(a, [&]<typename Q>() {
      forEachStep<vecsPerPanel, Q>(
          a, column0, [&](int64_t step, int v, Vec value) __attribute__((always_inline)) {
            store(panel + step * panelWidth + v * lanes, value);
          });
    });
  if (a.by_rows) {
    if (a.bits == 8)
      return dequantizeRows<8>(a, column0, panel);
    if (a.bits == 4)
      return dequantizeRows<4>(a, column0, panel);
    return dequantizeRows<2>(a, column0, panel);
  }
  int64_t columns = lesser(panelWidth, a.n - column0);
  for (int64_t i = 0; i < a.k; ++i)
    for (int64_t j = 0; j < panelWidth; ++j)
      panel[i * panelWidth + j] =
          j < columns ? (numberOf(a, i, column0 + j) - zeroOf(a, i / a.block, column0 + j)) *
                            scaleOf(a, i / a.block, column0 + j)
                      : 0.0f;
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_QUANTIZEDKERNEL_H
