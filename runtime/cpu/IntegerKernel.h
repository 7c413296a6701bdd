//===- IntegerKernel.h - Matmuls by packed numbers, in integers -----------===//
//
// Elements of x become integers of 23 bits. The 4 to 16 elements that a lane multiplies share a
// power of two as factor. So only elements that are much smaller than their neighbors are less
// exact than in f32. Each integer is three digits of 8 bits, so that instructions for sums of
// products of bytes multiply digits and packed numbers. A lane's sums are exact; they are converted
// to f32 and scaled. Lanes are steps of k: bytes are read in memory order, and nothing is
// transposed.
//
// Included by KernelsImpl.h, which documents TPC_LANES.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_INTEGERKERNEL_H
#define TPC_RT_CPU_INTEGERKERNEL_H

#include "cpu/QuantizedKernel.h"

#if (TPC_LANES == 16 && defined(__AVX512BW__)) || (TPC_LANES == 8 && defined(__AVX2__))
#define TPC_HAS_INTEGERS 1
#include <immintrin.h>
#endif

namespace tpc::rt::TPC_ISA {

/// Bytes of a chunk: a vector of a column.
constexpr int64_t chunkBytes = lanes * 4;
constexpr int digits = 3;

/// Layout of a converted row of x.
struct DigitRow {
  int64_t chunks, planes; ///< a byte has one number for each plane
  explicit DigitRow(const tpc_quantized_args &a)
      : chunks((a.k * a.bits + chunkBytes * 8 - 1) / (chunkBytes * 8)), planes(8 / a.bits) {}
  int64_t chunkSize() const { return planes * digits * chunkBytes; }
  /// Number of floats of a row: of each lane, the inverse factor and the sum of its elements; then
  /// the digits.
  int64_t floats() const { return chunks * (2 * lanes + chunkSize() / 4); }
};

inline int64_t digitFloats([[maybe_unused]] const tpc_quantized_args &a) {
#ifdef TPC_HAS_INTEGERS
  int64_t perUnit = 32 / a.bits, perChunk = lanes * perUnit;
  // Whether each lane is in one block, and a block consists of whole chunks or vice versa.
  bool hasWholeLanes = a.block >= a.k || (a.block % perUnit == 0 &&
                                          (a.block % perChunk == 0 || perChunk % a.block == 0));
  bool isSupported = a.bits < 8 || (lanes == 16 && hasByteProducts());
  if (!a.by_rows && hasWholeLanes && isSupported && a.k > 0)
    return a.m * DigitRow(a).floats();
#endif
  return 0;
}

/// Converts the rows of x. Returns false if an element is not finite.
inline bool splitDigits(const tpc_quantized_args &a, float *to) {
  DigitRow shape(a);
  int64_t planes = shape.planes, perChunk = planes * chunkBytes;
  int shift = planes == 1 ? 0 : planes == 2 ? 1 : 2;
  for (int64_t row = 0; row < a.m; ++row, to += shape.floats()) {
    const float *x = a.x + row * a.k;
    float *inverses = to, *sums = to + shape.chunks * lanes;
    auto *bytes = reinterpret_cast<int8_t *>(sums + shape.chunks * lanes);
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk, bytes += shape.chunkSize()) {
      alignas(64) float values[4 * chunkBytes] = {};
      int64_t count = lesser(perChunk, a.k - chunk * perChunk);
      __builtin_memcpy(values, x + chunk * perChunk, static_cast<uint64_t>(count) * 4);
      alignas(64) float factors[4 * chunkBytes];
      float *inverse = inverses + chunk * lanes;
      int64_t group = 4 * planes; // numbers of a lane
      for (int lane = 0; lane < lanes; ++lane) {
        int32_t bits[16], largest = 0;
        __builtin_memcpy(bits, values + lane * group, static_cast<uint64_t>(group) * 4);
        for (int64_t i = 0; i < group; ++i) {
          int32_t magnitude = bits[i] & 0x7fffffff;
          largest = magnitude > largest ? magnitude : largest;
        }
        int32_t exponent = largest >> 23; // with a bias of 127
        if (exponent == 255)
          return false;
        exponent = exponent < 23 ? 23 : exponent; // less than 2^-104: fewer bits
        // |x * factor| < 2^22
        int32_t factorBits = (127 + 21 + 127 - exponent) << 23, inverseBits = (exponent - 21) << 23;
        float factor;
        __builtin_memcpy(&factor, &factorBits, 4);
        __builtin_memcpy(inverse + lane, &inverseBits, 4);
        for (int64_t i = 0; i < group; ++i)
          factors[lane * group + i] = factor;
      }
      alignas(64) int32_t laneSums[lanes] = {};
      for (int64_t at = 0; at < perChunk; at += lanes) {
        // Rounds to integers.
        IntVec rounded = bitsOf(load(values + at) * load(factors + at) + 12582912.0f) - 0x4b400000;
        IntVec low = (rounded << 24) >> 24, rest = (rounded - low) >> 8;
        IntVec middle = (rest << 24) >> 24, high = (rest - middle) >> 8;
        // Bits 0 to 23 have the digits.
        IntVec packed = (low & 255) | (middle & 255) << 8 | high << 16;
        alignas(64) uint32_t all[lanes];
        alignas(64) int32_t integers[lanes];
        __builtin_memcpy(all, &packed, sizeof(packed));
        __builtin_memcpy(integers, &rounded, sizeof(rounded));
        for (int l = 0; l < lanes; ++l) {
          int64_t number = at + l, byte = number >> shift, plane = number & (planes - 1);
          int8_t *digit = bytes + plane * digits * chunkBytes + byte;
          digit[0] = static_cast<int8_t>(all[l]);
          digit[chunkBytes] = static_cast<int8_t>(all[l] >> 8);
          digit[2 * chunkBytes] = static_cast<int8_t>(all[l] >> 16);
          laneSums[byte / 4] += integers[l];
        }
      }
      for (int l = 0; l < lanes; ++l)
        sums[chunk * lanes + l] = static_cast<float>(laneSums[l]) * inverse[l];
    }
  }
  return true;
}

#ifdef TPC_HAS_INTEGERS

/// Sums of products of unsigned numbers and digits, in each lane.
struct ByteProducts {
  IntVec sum;
  TPC_INLINE void add(IntVec numbers, IntVec digit) {
#if TPC_LANES == 16
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(numbers), "v"(digit));
#else
    (void)numbers, (void)digit;
#endif
  }
  TPC_INLINE IntVec get() const { return sum; }
};
/// The same in 16 bits, which suffice for numbers of up to 4 bits.
struct PairProducts {
  IntVec sum;
  TPC_INLINE void add(IntVec numbers, IntVec digit) {
#if TPC_LANES == 16
    sum = (IntVec)_mm512_add_epi16((__m512i)sum,
                                   _mm512_maddubs_epi16((__m512i)numbers, (__m512i)digit));
#else
    sum = (IntVec)_mm256_add_epi16((__m256i)sum,
                                   _mm256_maddubs_epi16((__m256i)numbers, (__m256i)digit));
#endif
  }
  TPC_INLINE IntVec get() const {
#if TPC_LANES == 16
    return (IntVec)_mm512_madd_epi16((__m512i)sum, _mm512_set1_epi16(1));
#else
    return (IntVec)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
#endif
  }
};

/// Scales or zero points of a range of blocks, in f32.
template <int Columns> struct BlockFloats {
  static constexpr int64_t stride = scaleBlocks + lanes;
  alignas(64) float values[Columns * stride];

  void readScales(const tpc_quantized_args &a, const void *from, int64_t columnStride,
                  int64_t blockStride, int64_t column, int64_t block0, int64_t count) {
    withWeights(a.scale_dtype, [&](auto weights) {
      using W = decltype(weights);
      for (int c = 0; c < Columns; ++c) {
        const auto *row = static_cast<const typename W::Element *>(from) +
                          lesser(column + c, a.n - 1) * columnStride + block0 * blockStride;
        int64_t i = 0;
        if (blockStride == 1)
          for (; i + lanes <= count; i += lanes)
            store(values + c * stride + i, W::read(row + i));
        for (; i < count; ++i)
          values[c * stride + i] = W::readOne(row + i * blockStride);
        store(values + c * stride + count, Vec{}); // blocks that a chunk does not have
      }
    });
  }
  template <int Bits>
  void unpackZeros(const tpc_quantized_args &a, int64_t column, int64_t block0, int64_t count) {
    const auto *bytes = static_cast<const uint8_t *>(a.zero);
    for (int c = 0; c < Columns; ++c) {
      float *to = values + c * stride;
      int64_t at =
          lesser(column + c, a.n - 1) * a.zero_column_stride + block0 * a.zero_block_stride;
      int64_t i = 0;
      if (a.zero_block_stride == 1 && at * Bits % 8 == 0)
        for (; i + lanes <= count; i += lanes)
          store(to + i, unpackVec<Bits>(bytes + (at + i) * Bits / 8, a.is_signed));
      for (; i < count; ++i)
        to[i] = unpack(bytes, at + i * a.zero_block_stride, Bits, a.is_signed);
      store(to + count, Vec{});
    }
  }
  void readZeros(const tpc_quantized_args &a, int64_t column, int64_t block0, int64_t count) {
    if (!a.zero_bits)
      readScales(a, a.zero, a.zero_column_stride, a.zero_block_stride, column, block0, count);
    else if (a.zero_bits == 8)
      unpackZeros<8>(a, column, block0, count);
    else if (a.zero_bits == 4)
      unpackZeros<4>(a, column, block0, count);
    else
      unpackZeros<2>(a, column, block0, count);
    if (a.is_signed) // numbers are read as unsigned ones
      for (int64_t i = 0; i < Columns * stride; ++i)
        values[i] += static_cast<float>(1 << (a.bits - 1));
  }
};

/// Computes `Columns` elements of one row.
template <int Bits, int Columns, typename Sum>
TPC_INLINE void integerTile(const tpc_quantized_args &a, const float *row, int64_t column,
                            float *out) {
  DigitRow shape(a);
  constexpr int planes = 8 / Bits;
  constexpr int64_t perUnit = 32 / Bits, perChunk = lanes * perUnit;
  BlockFloats<Columns> scales, zeros;
  int32_t byteMask = static_cast<int32_t>(0x01010101u * ((1u << Bits) - 1));
  int32_t flips =
      a.is_signed ? static_cast<int32_t>(0xffffffffu / ((1u << Bits) - 1) * (1u << (Bits - 1))) : 0;
  float constantZero = static_cast<float>(a.zero_point + (a.is_signed ? 1 << (Bits - 1) : 0));
  const float *laneSums = row + shape.chunks * lanes;
  const auto *digitBytes = reinterpret_cast<const uint8_t *>(laneSums + shape.chunks * lanes);
  const auto *packed = static_cast<const uint8_t *>(a.packed);
  const uint8_t *rows[Columns];
  for (int c = 0; c < Columns; ++c)
    rows[c] = packed + lesser(column + c, a.n - 1) * a.row_bytes;
  int64_t rowEnd = (a.k * Bits + 7) / 8; // bytes of a row that may be read
  const uint8_t *end = packed + (a.n - 1) * a.row_bytes + rowEnd;
  int64_t block = lesser(a.block, a.k), blocks = (a.k + block - 1) / block;
  bool isWide = block >= perChunk || blocks == 1; // a chunk is in one block
  IntVec blockOfLane;
  for (int l = 0; l < lanes; ++l)
    blockOfLane[l] = isWide ? 0 : static_cast<int32_t>(l * perUnit / block);
  int64_t chunksPerBlock = isWide && blocks > 1 ? block / perChunk : shape.chunks;
  int64_t blocksPerChunk = isWide ? 0 : perChunk / block;
  Vec sums[Columns] = {};
  int64_t chunksAtATime = isWide ? (blocks == 1 ? shape.chunks : scaleBlocks * chunksPerBlock)
                                 : scaleBlocks / blocksPerChunk;
  for (int64_t chunk0 = 0; chunk0 < shape.chunks; chunk0 += chunksAtATime) {
    int64_t chunk1 = lesser(shape.chunks, chunk0 + chunksAtATime);
    int64_t block0 = isWide ? chunk0 / chunksPerBlock : chunk0 * blocksPerChunk;
    int64_t count = lesser(blocks - block0, scaleBlocks);
    scales.readScales(a, a.scale, a.scale_column_stride, a.scale_block_stride, column, block0,
                      count);
    if (a.zero)
      zeros.readZeros(a, column, block0, count);
#pragma clang loop unroll(disable)
    for (int64_t chunk = chunk0; chunk < chunk1; ++chunk) {
      int64_t scaleIndex = (isWide ? chunk / chunksPerBlock : chunk * blocksPerChunk) - block0;
      IntVec numbers[Columns];
      for (int c = 0; c < Columns; ++c) {
        const uint8_t *from = rows[c] + chunk * chunkBytes;
        if (from + chunkBytes <= end) {
          numbers[c] = bitsOf(load(reinterpret_cast<const float *>(from)));
        } else {
          alignas(64) uint8_t part[chunkBytes] = {};
          for (int64_t i = 0; from + i < end; ++i)
            part[i] = from[i];
          numbers[c] = bitsOf(load(reinterpret_cast<const float *>(part)));
        }
        __builtin_prefetch(from + Columns * a.row_bytes, /*rw=*/0, /*locality=*/2);
        numbers[c] ^= flips;
      }
      Sum sum[Columns][digits] = {};
      const uint8_t *digit = digitBytes + chunk * shape.chunkSize();
      for (int p = 0; p < planes; ++p) {
        IntVec plane[Columns];
        for (int c = 0; c < Columns; ++c)
          plane[c] = planes == 1 ? numbers[c] : (numbers[c] >> Bits * p) & byteMask;
        for (int d = 0; d < digits; ++d, digit += chunkBytes) {
          IntVec x = bitsOf(load(reinterpret_cast<const float *>(digit)));
          for (int c = 0; c < Columns; ++c)
            sum[c][d].add(plane[c], x);
        }
      }
      Vec laneSum = load(laneSums + chunk * lanes), inverse = load(row + chunk * lanes);
      Vec highFactor = inverse * 65536.0f;
      for (int c = 0; c < Columns; ++c) {
        IntVec low = (sum[c][1].get() << 8) + sum[c][0].get();
        Vec value = __builtin_convertvector(low, Vec) * inverse;
        value = fma(__builtin_convertvector(sum[c][2].get(), Vec), highFactor, value);
        const float *at = scales.values + c * scales.stride + scaleIndex;
        const float *zeroAt = zeros.values + c * zeros.stride + scaleIndex;
        Vec scale, zero = splat(constantZero);
        if (isWide) {
          scale = splat(*at);
          if (a.zero)
            zero = splat(*zeroAt);
        } else {
#if TPC_LANES == 16
          scale = (Vec)_mm512_permutexvar_ps((__m512i)blockOfLane, (__m512)load(at));
          if (a.zero)
            zero = (Vec)_mm512_permutexvar_ps((__m512i)blockOfLane, (__m512)load(zeroAt));
#else
          scale = (Vec)_mm256_permutevar8x32_ps((__m256)load(at), (__m256i)blockOfLane);
          if (a.zero)
            zero = (Vec)_mm256_permutevar8x32_ps((__m256)load(zeroAt), (__m256i)blockOfLane);
#endif
        }
        value = fma(-zero, laneSum, value);
        sums[c] = fma(value, scale, sums[c]);
      }
    }
  }
  for (int c = 0; c < Columns; ++c) {
    float total = 0;
    for (int width = lanes / 2; width >= 1; width /= 2)
      for (int l = 0; l < width; ++l)
        sums[c][l] += sums[c][l + width];
    total = sums[c][0];
    out[c] = total;
  }
}

template <int Bits, typename Sum>
__attribute__((noinline)) void integerTiles(const tpc_quantized_args &a, const float *rows,
                                            int64_t column0, int64_t column1) {
  constexpr int columns = 4;
  int64_t rowFloats = DigitRow(a).floats();
  GemmJob job{a.x, a.k, nullptr, a.bias, a.residual, a.out, a.n, a.m, a.k, a.n, a.epilogue};
  for (int64_t column = column0; column < column1; column += lanes) {
    // All rows of a group of columns, whose numbers stay in the cache.
    alignas(64) float results[maxTransposedRows * lanes];
    for (int64_t c = 0; c < lanes && column + c < column1; c += columns)
      for (int64_t row = 0; row < a.m; ++row)
        integerTile<Bits, columns, Sum>(a, rows + row * rowFloats, column + c,
                                        results + row * lanes + c);
    for (int64_t row = 0; row < a.m; ++row) {
      Vec one[1][1] = {{load(results + row * lanes)}};
      finishSums<1, 1>(job, one, row, column);
    }
  }
}
#endif

inline void gemmIntegers([[maybe_unused]] const tpc_quantized_args &a,
                         [[maybe_unused]] const float *rows, [[maybe_unused]] int64_t column0,
                         [[maybe_unused]] int64_t column1) {
#ifdef TPC_HAS_INTEGERS
  if (lanes == 16 && hasByteProducts()) {
    if (a.bits == 8)
      return integerTiles<8, ByteProducts>(a, rows, column0, column1);
    if (a.bits == 4)
      return integerTiles<4, ByteProducts>(a, rows, column0, column1);
    return integerTiles<2, ByteProducts>(a, rows, column0, column1);
  }
  if (a.bits == 4)
    return integerTiles<4, PairProducts>(a, rows, column0, column1);
  integerTiles<2, PairProducts>(a, rows, column0, column1);
#endif
}

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_INTEGERKERNEL_H
