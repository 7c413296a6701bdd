//===- WeightLoaderTest.cpp - Device tests of weight loading ----------------------===//
//
// Compares uploaded tensor slices of any form and of all types with a loop over their indices.
//
//===----------------------------------------------------------------------===//

#include "DeviceTest.h"
#include "core/DType.h"
#include "core/Half.h"
#include "program/RandomWeights.h"
#include "program/UploadWeights.h"
#include <random>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

/// A loader with so little staging memory that slices need several steps.
class LimitedLoader final : public WeightLoader {
public:
  LimitedLoader(WeightLoader &loader, int64_t bytes, int64_t elements)
      : loader(loader), bytes(bytes), elements(elements) {}
  int64_t maxBytes() const override { return bytes; }
  int64_t maxElements() const override { return elements; }
  std::byte *begin(int64_t size) override {
    EXPECT_LE(size, bytes);
    return loader.begin(size);
  }
  void put(void *to, int32_t dtype, int32_t source, std::span<const LoadFactor> factors) override {
    loader.put(to, dtype, source, factors);
  }
  void draw(void *to, int32_t dtype, int32_t source, const Generator &generator, int64_t first,
            std::span<const LoadFactor> factors) override {
    int64_t count = 1, tables = 0;
    for (const LoadFactor &factor : factors) {
      count *= factor.size;
      tables += static_cast<int64_t>(factor.offsets.size_bytes());
    }
    EXPECT_LE(count, elements);
    EXPECT_LE(tables, bytes);
    loader.draw(to, dtype, source, generator, first, factors);
  }
  void clear(void *to, int64_t size) override { loader.clear(to, size); }
  std::vector<std::shared_ptr<Matrix>>
  matricesOf(const void *rows, int64_t k, std::span<const int64_t> widths, int32_t type) override {
    return loader.matricesOf(rows, k, widths, type);
  }

private:
  WeightLoader &loader;
  const int64_t bytes, elements;
};

/// A slice of a tensor with `elements` elements.
struct TensorPart {
  LocalView view;
  int64_t elements = 0;
};

/// Generates a random slice: the tensor's factors, in any order and in any dimensions. Each factor
/// has all, one, none, or some of its indices, evenly spaced or not.
TensorPart drawPart(std::mt19937 &random) {
  auto upTo = [&](int64_t maximum) {
    return static_cast<int64_t>(random() % uint64_t(maximum + 1));
  };
  TensorPart piece;
  piece.elements = 1;
  std::vector<ViewFactor> factors;
  for (int64_t i = 0, count = upTo(4); i < count; ++i) {
    int64_t all = 1 + upTo(i == 0 ? 40 : 7);
    ViewFactor drawn;
    int64_t begin = upTo(all - 1);
    drawn.size = upTo(9) == 0 ? upTo(1) : upTo(1) ? all : 1 + upTo(all - begin - 1);
    if (drawn.size == all)
      begin = 0;
    drawn.stride = piece.elements;
    piece.view.offset += begin * piece.elements;
    if (drawn.size > 0 && upTo(3) == 0) // repeated indices
      for (int64_t at = 0; at < drawn.size; ++at)
        drawn.offsets.push_back(upTo(all - begin - 1) * piece.elements);
    else if (drawn.size > 1 && upTo(3) == 0) // reversed
      piece.view.offset += (drawn.size - 1) * drawn.stride, drawn.stride = -drawn.stride;
    else if (upTo(9) == 0)
      drawn.stride = 0;
    piece.elements *= all;
    factors.push_back(drawn);
  }
  if (upTo(1))
    std::reverse(factors.begin(), factors.end()); // major to minor, as in the tensor
  else
    std::shuffle(factors.begin(), factors.end(), random);
  for (const ViewFactor &factor : factors) {
    if (piece.view.dims.empty() || upTo(1))
      piece.view.dims.emplace_back();
    piece.view.dims.back().push_back(factor);
  }
  return piece;
}

/// Returns the offsets of the slice's elements in the tensor, in the slice's order.
std::vector<int64_t> offsetsOf(const LocalView &view) {
  std::vector<int64_t> offsets{view.offset};
  for (const auto &dim : view.dims)
    for (const ViewFactor &factor : dim) {
      std::vector<int64_t> next;
      for (int64_t offset : offsets)
        for (int64_t i = 0; i < factor.size; ++i)
          next.push_back(offset + factor.at(i));
      offsets = std::move(next);
    }
  return offsets;
}

/// Converts an element to f32.
float toFloat(const std::byte *at, int32_t dtype) {
  auto as = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return value;
  };
  switch (dtype) {
  case TPC_F64:
    return static_cast<float>(as(double()));
  case TPC_F16:
    return halfToFloat(as(uint16_t()));
  case TPC_BF16:
    return bfloatToFloat(as(uint16_t()));
  case TPC_I64:
    return static_cast<float>(as(int64_t()));
  case TPC_I32:
    return static_cast<float>(as(int32_t()));
  case TPC_I16:
    return as(int16_t());
  case TPC_I8:
    return as(int8_t());
  case TPC_U8:
  case TPC_BOOL:
    return as(uint8_t());
  }
  return as(float());
}

/// Returns `bytes` bytes of device memory that `fillIt` has written, and checks that it wrote
/// nothing after them.
template <class Fill>
std::vector<std::byte> filled(DeviceTest &test, int64_t bytes, const Fill &fillIt) {
  std::vector<uint8_t> before(static_cast<size_t>(bytes) + 32, 0xa5);
  auto *data = reinterpret_cast<std::byte *>(test.tensor(before));
  fillIt(data + 16);
  std::vector<std::byte> all = test.valuesOf(data, before.size());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(all[i], std::byte(0xa5));
    EXPECT_EQ(all[all.size() - 1 - i], std::byte(0xa5));
  }
  test.memory.pop_back();
  return {all.begin() + 16, all.end() - 16};
}

} // namespace

TEST_P(DeviceTest, LoadedPartsEqualFiles) {
  std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
  if (!loader)
    return; // the host writes this device's memory
  constexpr tpc_dtype types[] = {TPC_F32, TPC_F64, TPC_F16, TPC_BF16, TPC_I8,
                                 TPC_I16, TPC_I32, TPC_I64, TPC_BOOL, TPC_U8};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    TensorPart piece = drawPart(random);
    tpc_dtype source = types[seed % std::size(types)], dtype = random() % 2 ? source : TPC_F32;
    int64_t from = sizeOf(source), to = sizeOf(dtype);
    // Unaligned, as in files. Any bits, except that booleans are 0 or 1.
    std::vector<std::byte> file(static_cast<size_t>(piece.elements * from) + 1);
    for (std::byte &byte : file)
      byte = static_cast<std::byte>(random());
    if (source == TPC_BOOL)
      for (std::byte &byte : file)
        byte &= std::byte(1);
    const std::byte *data = file.data() + 1;
    std::vector<std::byte> expected;
    for (int64_t offset : offsetsOf(piece.view)) {
      const std::byte *at = data + offset * from;
      float value = toFloat(at, source);
      if (source != dtype)
        at = reinterpret_cast<const std::byte *>(&value);
      expected.insert(expected.end(), at, at + to);
    }
    int64_t maximum = std::max<int64_t>(from * 8, int64_t(1) << random() % 14);
    LimitedLoader narrow(*loader, maximum, maximum);
    std::vector<std::byte> actual = filled(*this, piece.view.count() * to, [&](std::byte *at) {
      upload(*device, narrow, piece.view, dtype, source, data, at);
    });
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i += static_cast<size_t>(to)) {
      float have = toFloat(&actual[i], dtype), want = toFloat(&expected[i], dtype);
      if (source != dtype && have != have && want != want)
        continue; // NaN payloads are unspecified
      ASSERT_EQ(std::memcmp(&actual[i], &expected[i], static_cast<size_t>(to)), 0)
          << "seed " << seed << ", " << spellType(source) << " as " << spellType(dtype) << ", byte "
          << i << " of " << expected.size() << ": " << have << " for " << want;
    }
  }
}

/// Rows that are apart: the elements between them keep their values. Files and random numbers.
TEST_P(DeviceTest, LoadedPartsAreColumns) {
  std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
  if (!loader)
    return;
  int compared = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    TensorPart piece = drawPart(random);
    if (piece.view.dims.size() != 2)
      continue;
    tpc_dtype source = seed % 2 ? TPC_F32 : TPC_BF16, dtype = seed % 4 == 2 ? TPC_F32 : source;
    const int64_t from = sizeOf(source), to = sizeOf(dtype), count = piece.view.count();
    const int64_t width = piece.view.shape()[1];
    const int64_t stride = width + static_cast<int64_t>(random() % 9);
    int64_t bytes = count ? ((piece.view.shape()[0] - 1) * stride + width) * to : 0;
    std::vector<std::byte> file(static_cast<size_t>(piece.elements * from));
    for (size_t i = 0; i < file.size(); i += 2) {
      uint16_t bits = floatToBfloat(static_cast<float>(random() % 1000)); // no NaN, in both types
      std::memcpy(&file[i], &bits, 2);
    }
    int64_t maximum = std::max<int64_t>(from * 8, int64_t(1) << random() % 12);
    LimitedLoader narrow(*loader, maximum, maximum);
    const Generator generator{seed, 0, 0.02f};
    for (bool drawn : {false, true}) {
      auto load = [&](std::byte *at, int64_t rowStride) {
        if (drawn)
          uploadRandom(narrow, piece.view, dtype, source, generator, at, rowStride);
        else
          upload(*device, narrow, piece.view, dtype, source, file.data(), at, rowStride);
      };
      std::vector<std::byte> dense = filled(*this, count * to, [&](std::byte *at) { load(at, 0); });
      std::vector<std::byte> apart = filled(*this, bytes, [&](std::byte *at) { load(at, stride); });
      for (int64_t i = 0; i < bytes / to; ++i) {
        int64_t row = i / stride, column = i % stride;
        std::vector<std::byte> expected(static_cast<size_t>(to), std::byte(0xa5));
        if (column < width)
          std::memcpy(expected.data(), &dense[static_cast<size_t>((row * width + column) * to)],
                      static_cast<size_t>(to));
        ASSERT_EQ(std::memcmp(&apart[static_cast<size_t>(i * to)], expected.data(),
                              static_cast<size_t>(to)),
                  0)
            << "seed " << seed << ", row " << row << ", column " << column << ", width " << width;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

/// Elements between strides are skipped, even if the slice has the file's order and type.
TEST_P(DeviceTest, StridedElementsAreLoaded) {
  std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
  if (!loader)
    return;
  const LocalView views[] = {{5, {{{40, 3, {}, {}}}}},
                             {5, {{{4, 100, {}, {}}}, {{10, 3, {}, {}}}}}};
  for (const LocalView &view : views)
    for (auto [dtype, source] : {std::pair(TPC_F32, TPC_F32), {TPC_I8, TPC_I8}, {TPC_F32, TPC_I8}})
      for (int64_t elements : {8, 31, 1000}) {
        int64_t from = sizeOf(source), to = sizeOf(dtype);
        std::vector<std::byte> file(static_cast<size_t>(400 * from)), expected;
        for (int64_t i = 0; i < 400; ++i) {
          auto value = static_cast<float>(i);
          if (source == TPC_F32)
            std::memcpy(&file[static_cast<size_t>(i * 4)], &value, 4);
          else
            file[static_cast<size_t>(i)] = static_cast<std::byte>(i % 128);
        }
        for (int64_t offset : offsetsOf(view)) {
          const std::byte *at = file.data() + offset * from;
          float value = toFloat(at, source);
          if (source != dtype)
            at = reinterpret_cast<const std::byte *>(&value);
          expected.insert(expected.end(), at, at + to);
        }
        LimitedLoader narrow(*loader, elements * from, elements);
        EXPECT_EQ(filled(*this, view.count() * to,
                         [&](std::byte *at) {
                           upload(*device, narrow, view, dtype, source, file.data(), at);
                         }),
                  expected)
            << spellType(source) << " as " << spellType(dtype) << ", " << elements << " at a time";
      }
}

TEST_P(DeviceTest, EachElementOfSixteenBitsIsItself) {
  std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
  if (!loader)
    return;
  for (tpc_dtype source : {TPC_F16, TPC_BF16}) {
    LocalView view{0, {{{1 << 16, 1, {}, {}}}}};
    std::vector<uint16_t> file(1 << 16);
    for (size_t i = 0; i < file.size(); ++i)
      file[i] = static_cast<uint16_t>(i);
    std::vector<std::byte> actual = filled(*this, 4 << 16, [&](std::byte *at) {
      upload(*device, *loader, view, TPC_F32, source,
             reinterpret_cast<const std::byte *>(file.data()), at);
    });
    for (size_t i = 0; i < file.size(); ++i) {
      float have = toFloat(&actual[4 * i], TPC_F32);
      float want = source == TPC_F16 ? halfToFloat(file[i]) : bfloatToFloat(file[i]);
      if (want == want)
        ASSERT_EQ(std::memcmp(&have, &want, 4), 0) << i << ": " << have << " for " << want;
      else
        ASSERT_NE(have, have) << i;
    }
  }
}

TEST_P(DeviceTest, DrawnNumbersHaveTheBitsOfTheHost) {
  std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
  if (!loader)
    return;
  struct Types {
    tpc_dtype dtype, source;
  };
  constexpr Types types[] = {{TPC_F32, TPC_F32}, {TPC_F16, TPC_F16},   {TPC_BF16, TPC_BF16},
                             {TPC_F32, TPC_F16}, {TPC_F32, TPC_BF16},  {TPC_F32, TPC_I64},
                             {TPC_I64, TPC_I64}, {TPC_BOOL, TPC_BOOL}, {TPC_F64, TPC_F64}};
  constexpr Parameter::Init inits[] = {Parameter::Init::Normal, Parameter::Init::Ones,
                                       Parameter::Init::Zeros};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    TensorPart piece = drawPart(random);
    auto [dtype, source] = types[seed % std::size(types)];
    Parameter parameter;
    parameter.name = "layer." + std::to_string(seed);
    parameter.init = inits[random() % 3];
    parameter.sourceShape = {piece.elements, 1};
    RandomSource drawn(random(), parameter);
    // Offsets may exceed 32 bits.
    if (seed % 3 == 0)
      piece.view.offset += (int64_t(1) << 33) + 12345;
    int64_t to = sizeOf(dtype);
    std::vector<std::byte> expected;
    for (int64_t offset : offsetsOf(piece.view)) {
      float value = drawn.at(offset);
      uint16_t half = source == TPC_F16    ? floatToHalf(value)
                      : source == TPC_BF16 ? floatToBfloat(value)
                                           : uint16_t(0);
      if (source == TPC_F16 || source == TPC_BF16)
        value = source == TPC_F16 ? halfToFloat(half) : bfloatToFloat(half);
      std::byte bytes[8] = {};
      if (dtype == TPC_F32)
        std::memcpy(bytes, &value, 4);
      else if (dtype == TPC_F16 || dtype == TPC_BF16)
        std::memcpy(bytes, &half, 2);
      expected.insert(expected.end(), bytes, bytes + to);
    }
    int64_t maximum = int64_t(8) << random() % 8;
    LimitedLoader narrow(*loader, maximum, random() % 2 ? maximum : 1 << 20);
    std::vector<std::byte> actual = filled(*this, piece.view.count() * to, [&](std::byte *at) {
      uploadRandom(narrow, piece.view, dtype, source, drawn.generator(), at);
    });
    ASSERT_EQ(actual, expected) << "seed " << seed << ", " << spellType(source) << " as "
                                << spellType(dtype);
  }
}

// Uses all of the loader's memory, and destroys a loader before its work is done.
TEST_P(DeviceTest, LoadersEndAfterTheirWork) {
  const std::vector<float> values = {3, 1, 4, 1, 5};
  for (bool maximum : {true, false}) {
    std::unique_ptr<WeightLoader> loader = device->makeWeightLoader();
    if (!loader)
      return;
    float *data = tensor(std::vector<float>(values.size()));
    auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    std::byte *written = loader->begin(maximum ? loader->maxBytes() : bytes);
    std::memcpy(written, values.data(), static_cast<size_t>(bytes));
    const LoadFactor all{static_cast<int64_t>(values.size()), 1, 1, {}};
    loader->put(data, TPC_F32, TPC_F32, {&all, 1});
    loader.reset();
    EXPECT_EQ(valuesOf(data, values.size()), values);
  }
}
