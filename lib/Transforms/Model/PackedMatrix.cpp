//===- PackedMatrix.cpp - Quantization of one matrix ----------------------===//

#include "PackedMatrix.h"

#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Float8.h"
#include "tpc/Dialect/MakeError.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FileSystem.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Matrices in files
//===----------------------------------------------------------------------===//

/// Returns the distances of the elements of a dimension from its first element.
static std::vector<int64_t> getDistances(ViewAttr view, unsigned dim) {
  std::vector<int64_t> all = {0};
  for (StridedFactorAttr factor : view.getFactors(dim)) { // major to minor
    std::vector<int64_t> next;
    next.reserve(all.size() * factor.getSize());
    for (int64_t distance : all)
      for (int64_t i = 0; i < factor.getSize(); ++i)
        next.push_back(distance + i * factor.getStride());
    all = std::move(next);
  }
  return all;
}

llvm::Expected<FileMatrix> FileMatrix::open(StringRef path, uint64_t offset, RankedTensorType type,
                                            ViewAttr view) {
  uint64_t bytes = type.getNumElements() * getElementBytes(type), fileBytes;
  if (std::error_code problem = llvm::sys::fs::file_size(path, fileBytes))
    return makeError("'" + path + "' cannot be read: " + problem.message());
  if (offset > fileBytes || bytes > fileBytes - offset)
    return makeError("'" + path + "' has " + llvm::Twine(fileBytes) +
                     " bytes, but the weight ends at byte " + llvm::Twine(offset + bytes));
  auto file = llvm::MemoryBuffer::getFileSlice(path, bytes, offset);
  if (!file)
    return makeError("'" + path + "' cannot be read: " + file.getError().message());
  FileMatrix matrix;
  matrix.file = std::move(*file);
  matrix.element = type.getElementType();
  matrix.rows = getDistances(view, 0);
  matrix.columns = getDistances(view, 1);
  for (int64_t &row : matrix.rows)
    row += view.getOffset();
  return matrix;
}

template <typename Load>
void FileMatrix::read(int64_t column, int64_t count, float *to, Load load) const {
  const char *bytes = file->getBufferStart();
  int64_t numRows = getRows();
  for (int64_t row = 0; row < numRows; ++row)
    for (int64_t i = 0; i < count; ++i)
      to[i * numRows + row] = load(bytes, rows[row] + columns[column + i]);
}

void FileMatrix::read(int64_t column, int64_t count, float *to) const {
  auto loadBits = [](const char *bytes, int64_t at, auto bits) {
    std::memcpy(&bits, bytes + at * sizeof(bits), sizeof(bits));
    return bits;
  };
  if (element.isF32())
    return read(column, count, to, [&](const char *bytes, int64_t at) {
      return llvm::bit_cast<float>(loadBits(bytes, at, uint32_t()));
    });
  if (element.isBF16())
    return read(column, count, to, [&](const char *bytes, int64_t at) {
      return llvm::bit_cast<float>(uint32_t(loadBits(bytes, at, uint16_t())) << 16);
    });
  read(column, count, to, [&](const char *bytes, int64_t at) {
    uint32_t half = loadBits(bytes, at, uint16_t()), magnitude = (half & 0x7fff) << 13;
    // The exponent bias of f16 is 112 less than that of f32. The largest exponent is that of
    // infinities and NaN.
    float value = half >= 0xfc00 || (half & 0x7fff) >= 0x7c00
                      ? llvm::bit_cast<float>(magnitude | 0x7f800000)
                      : llvm::bit_cast<float>(magnitude) * 0x1p112f;
    return half & 0x8000 ? -value : value;
  });
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

/// Appends a scale, rounded to its type. Returns the rounded scale.
static float appendScale(std::vector<char> &scales, Type type, float scale) {
  llvm::APFloat rounded(scale);
  bool losesInfo;
  rounded.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                  &losesInfo);
  // A scale of zero would make all numbers zero.
  if (rounded.isZero())
    rounded = llvm::APFloat(rounded.getSemantics(), 1);
  uint64_t bits = rounded.bitcastToAPInt().getZExtValue();
  const char *bytes = reinterpret_cast<const char *>(&bits);
  scales.insert(scales.end(), bytes, bytes + getElementBytes(type));
  rounded.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return rounded.convertToFloat();
}

/// Returns the byte of the number of E4M3 that is nearest to `x`, ties to even. `x` is at most 448
/// in magnitude.
static uint8_t encodeFloat8(float x) {
  float magnitude = std::fabs(x);
  int exponent = magnitude >= 0x1p-6f ? std::ilogb(magnitude) : -6;
  int steps = int(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  if (steps == 16) {
    steps = 8;
    ++exponent;
  }
  int bits = steps < 8 ? steps : (exponent + 7) * 8 + steps - 8;
  return uint8_t(bits | (std::signbit(x) ? 0x80 : 0));
}

static float decodeFloat8(uint8_t byte) {
  int exponent = byte >> 3 & 15, fraction = byte & 7;
  float magnitude =
      exponent ? std::ldexp(float(8 + fraction), exponent - 10) : std::ldexp(float(fraction), -9);
  return byte & 0x80 ? -magnitude : magnitude;
}

namespace {
/// Measures the relative error of products of random rows with a quantized matrix.
class RandomRows {
public:
  /// `toFloat8`: the rows are rounded to E4M3, each with its own scale.
  explicit RandomRows(int64_t rows, bool toFloat8 = false) : x(rows * count) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float &value : x)
      value = normal(random);
    changed = x;
    for (int i = 0; toFloat8 && i < count; ++i) {
      float largest = 0;
      for (int64_t row = 0; row < rows; ++row)
        largest = std::max(largest, std::fabs(x[row * count + i]));
      float scale = largest > 0 ? largest / float(kLargestFloat8) : 1;
      for (int64_t row = 0; row < rows; ++row)
        changed[row * count + i] = decodeFloat8(encodeFloat8(x[row * count + i] / scale)) * scale;
    }
  }
  void add(ArrayRef<float> column, ArrayRef<float> difference) {
    float result[count] = {}, change[count] = {};
    for (size_t row = 0; row < column.size(); ++row)
      for (int i = 0; i < count; ++i) {
        result[i] += x[row * count + i] * column[row];
        float own = x[row * count + i], other = changed[row * count + i];
        change[i] += other * difference[row] + (other - own) * column[row];
      }
    for (int i = 0; i < count; ++i) {
      results += double(result[i]) * result[i];
      changes += double(change[i]) * change[i];
    }
  }
  double getError() const { return results > 0 ? std::sqrt(changes / results) : 0; }

private:
  static constexpr int count = 4;
  std::vector<float> x, changed; // [rows of the matrix, count]
  double results = 0, changes = 0;
};
} // namespace

llvm::Expected<PackedMatrix> mlir::tpc::quantize(const FileMatrix &matrix, int64_t bits,
                                                 int64_t block, Type scaleType) {
  int64_t rows = matrix.getRows(), columns = matrix.getColumns();
  int64_t each = 8 / bits, rowBytes = rows / each;
  float lowest = -float(1 << (bits - 1)), highest = -lowest - 1;
  PackedMatrix packed;
  packed.numbers.resize(columns * rowBytes);
  packed.scales.reserve(columns * (rows / block) * getElementBytes(scaleType));
  RandomRows randomRows(rows);
  constexpr int64_t step = 16; // columns of a cache line
  std::vector<float> values(step * rows), differences(rows), rounded(rows);
  for (int64_t column0 = 0; column0 < columns; column0 += step) {
    int64_t count = std::min(step, columns - column0);
    matrix.read(column0, count, values.data());
    for (int64_t i = 0; i < count; ++i) {
      const float *column = values.data() + i * rows;
      for (int64_t row0 = 0; row0 < rows; row0 += block) {
        float low = 0, high = 0;
        bool isFinite = true;
        for (int64_t row = row0; row < row0 + block; ++row) {
          low = std::min(low, column[row]);
          high = std::max(high, column[row]);
          isFinite &= std::fabs(column[row]) <= std::numeric_limits<float>::max();
        }
        if (!isFinite)
          return makeError("a number of column " + llvm::Twine(column0 + i) + " is not finite");
        float largest = -low > high ? low : high;
        float scale = appendScale(packed.scales, scaleType, largest == 0 ? 1.0f : largest / lowest);
        for (int64_t row = row0; row < row0 + block; ++row) {
          // The sum rounds to an integer, ties to even.
          float number = std::max(lowest, std::min(highest, column[row] / scale));
          rounded[row] = number + 12582912.0f - 12582912.0f;
          differences[row] = rounded[row] * scale - column[row];
        }
      }
      randomRows.add(ArrayRef(column, rows), differences);
      char *to = packed.numbers.data() + (column0 + i) * rowBytes;
      uint32_t mask = (1u << bits) - 1;
      for (int64_t byte = 0; byte < rowBytes; ++byte) {
        uint32_t all = 0;
        for (int64_t j = 0; j < each; ++j)
          all |= (uint32_t(int32_t(rounded[byte * each + j])) & mask) << (j * bits);
        to[byte] = char(all);
      }
    }
  }
  packed.error = randomRows.getError();
  return packed;
}

llvm::Expected<PackedMatrix> mlir::tpc::quantizeToFloat8(const FileMatrix &matrix) {
  int64_t rows = matrix.getRows(), columns = matrix.getColumns();
  PackedMatrix packed;
  packed.numbers.reserve(columns * rows);
  RandomRows randomRows(rows, /*toFloat8=*/true);
  constexpr int64_t step = 16; // columns of a cache line
  std::vector<float> values(step * rows), differences(rows);
  for (int64_t column0 = 0; column0 < columns; column0 += step) {
    int64_t count = std::min(step, columns - column0);
    matrix.read(column0, count, values.data());
    for (int64_t i = 0; i < count; ++i) {
      ArrayRef<float> column(values.data() + i * rows, rows);
      float largest = 0;
      for (float value : column) {
        if (!std::isfinite(value))
          return makeError("a number of column " + llvm::Twine(column0 + i) + " is not finite");
        largest = std::max(largest, std::fabs(value));
      }
      float scale = largest / float(kLargestFloat8);
      if (scale == 0)
        scale = 1;
      const char *bytes = reinterpret_cast<const char *>(&scale);
      packed.scales.insert(packed.scales.end(), bytes, bytes + sizeof(scale));
      for (int64_t row = 0; row < rows; ++row) {
        float quotient =
            std::clamp(column[row] / scale, -float(kLargestFloat8), float(kLargestFloat8));
        uint8_t byte = encodeFloat8(quotient);
        packed.numbers.push_back(char(byte));
        differences[row] = decodeFloat8(byte) * scale - column[row];
      }
      randomRows.add(column, differences);
    }
  }
  packed.error = randomRows.getError();
  return packed;
}
