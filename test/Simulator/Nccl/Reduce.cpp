//===- Reduce.cpp - Reductions, one step at a time ------------------------===//

#include "Comm.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace sim::nccl {

unsigned bytesOf(DataType type) {
  constexpr unsigned bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

namespace {

struct Brain {
  uint16_t bits;
  Brain() = default;
  explicit Brain(float value) {
    auto wide = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? uint16_t(wide >> 16 | 64)
                             : uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// Type in which elements of type T are reduced.
template <class T> using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

template <class T> T apply(T a, T b, RedOp op) {
  auto x = Wide<T>(a), y = Wide<T>(b);
  switch (op) {
  case Sum:
  case Avg:
    return T(x + y);
  case Prod:
    return T(x * y);
  case Max: // drops NaN, as fmax does
    return T(x > y || y != y ? x : y);
  case Min:
    return T(x < y || y != y ? x : y);
  }
  return a;
}

template <class F> void byType(DataType type, F f) {
  switch (type) {
  case Int8:
    return f(int8_t());
  case Uint8:
    return f(uint8_t());
  case Int32:
    return f(int32_t());
  case Uint32:
    return f(uint32_t());
  case Int64:
    return f(int64_t());
  case Uint64:
    return f(uint64_t());
  case Float16:
    return f(_Float16());
  case Float32:
    return f(float());
  case Float64:
    return f(double());
  case Bfloat16:
    return f(Brain());
  }
}

} // namespace

void combine(uint8_t *into, const uint8_t *from, uint64_t count, DataType type, RedOp op) {
  byType(type, [&](auto tag) {
    using T = decltype(tag);
    for (uint64_t i = 0; i < count; ++i) {
      T a, b;
      std::memcpy(&a, into + i * sizeof(T), sizeof(T));
      std::memcpy(&b, from + i * sizeof(T), sizeof(T));
      a = apply(a, b, op);
      std::memcpy(into + i * sizeof(T), &a, sizeof(T));
    }
  });
}

void divide(uint8_t *into, uint64_t count, DataType type, int ranks) {
  byType(type, [&](auto tag) {
    using T = decltype(tag);
    for (uint64_t i = 0; i < count; ++i) {
      T a;
      std::memcpy(&a, into + i * sizeof(T), sizeof(T));
      a = T(Wide<T>(a) / Wide<T>(ranks));
      std::memcpy(into + i * sizeof(T), &a, sizeof(T));
    }
  });
}

} // namespace sim::nccl
