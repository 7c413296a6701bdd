//===- Memory.h - Simulated memory of one rank ------------------*- C++ -*-===//
//
// The memory layout is the layout of the executable. Arithmetic is in doubles; numbers are rounded
// to their types only by stores and casts. Rounding can be disabled, to distinguish faults from
// rounding errors.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_MEMORY_H
#define TPC_LIB_VERIFY_LOWERED_MEMORY_H

#include "tpc/Dialect/Elements.h"

#include "llvm/Support/MemAlloc.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>

namespace mlir::tpc::lowered {

/// A scalar. Floats are doubles; integers, booleans and indices are sign-extended to 64 bits.
///
/// Infinities, NaNs and large numbers have no integer. Their conversion is an unspecified value,
/// and so are values computed from it, except by a `select` that does not choose it. Results,
/// indices and conditions must not be unspecified.
struct Scalar {
  union {
    double f; // of an unspecified value: the number without an integer
    int64_t i;
  };
  Operation *conversion = nullptr; // the conversion that an unspecified value depends on

  bool isUnspecified() const { return conversion; }
};
/// Returns "'Cast_3' (arith.fptosi) has no integer for -inf", for example.
std::string explainUnspecified(Scalar value);

/// An array that is zero at first. Pages of a large array take no memory until they are written.
template <typename T> class ZeroArray {
public:
  explicit ZeroArray(int64_t size)
      : array(static_cast<T *>(llvm::safe_calloc(size, sizeof(T)))), length(size) {}
  int64_t size() const { return length; }
  T *data() { return array.get(); }
  T &operator[](int64_t i) { return array.get()[i]; }

private:
  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> array;
  int64_t length;
};

/// One allocation. Its bytes are undefined until they are written.
struct Memory {
  /// Maximum size in bytes, which exceeds all frames of runs at small sizes.
  static constexpr int64_t largest = 1 << 27;

  /// `rounds`: floats are rounded to their type; else they are stored exactly.
  Memory(int64_t size, bool rounds)
      : bytes(size), written(size), exact(rounds ? 0 : size / 2), rounds(rounds) {}
  ZeroArray<std::byte> bytes;
  ZeroArray<uint8_t> written;            // 1 for each byte that is written
  ZeroArray<double> exact;               // value of each float, at half the index of its first byte
  std::map<int64_t, Scalar> unspecified; // by byte
  bool rounds;
};

/// An element type with cached properties.
class ElementType {
public:
  enum Kind : uint8_t { F32, F64, Half, I1, I8, I16, I32, I64 };

  ElementType(Type type = {});
  operator Type() const { return type; }
  Kind getKind() const { return kind; }
  bool isFloat() const { return kind <= Half; }
  int64_t getBytes() const { return bytes; }

private:
  Type type;
  int64_t bytes = 1;
  Kind kind = I8;
};

/// Elements of one type in an allocation, from byte `begin` on: adjacent ones, or rows of `width`
/// elements at distances of `stride`.
struct MemoryView {
  std::shared_ptr<Memory> memory;
  int64_t begin = 0;
  int64_t elements = 0;
  ElementType type;
  int64_t width = 0; // 0: adjacent elements
  int64_t stride = 0;

  /// Returns the position of an element in memory, in elements.
  int64_t positionOf(int64_t element) const {
    return width ? element / width * stride + element % width : element;
  }
  int64_t byteOf(int64_t element) const { return begin + positionOf(element) * type.getBytes(); }
  /// Returns the first byte after the view.
  int64_t getEnd() const { return elements > 0 ? byteOf(elements - 1) + type.getBytes() : begin; }
  /// Returns all elements from the first to the last one, with those between its rows.
  MemoryView getSpan() const;
  /// `exists` returns whether all bytes of an element are in the allocation; `isWritten`, whether
  /// all bytes are also written.
  bool exists(int64_t element) const {
    int64_t byte = byteOf(element);
    return element >= 0 && byte >= 0 && byte + type.getBytes() <= memory->bytes.size();
  }
  bool isWritten(int64_t element) const {
    const uint8_t *at = memory->written.data() + byteOf(element);
    auto areOnes = [at](auto ones) { return std::memcmp(at, &ones, sizeof ones) == 0; };
    switch (type.getBytes()) {
    case 1:
      return *at;
    case 2:
      return areOnes(uint16_t(0x0101));
    case 4:
      return areOnes(uint32_t(0x01010101));
    default:
      return areOnes(uint64_t(0x0101010101010101));
    }
  }
  Scalar load(int64_t element) const;
  void store(int64_t element, Scalar value) const;
  /// Marks all elements as undefined.
  void forget() const;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_MEMORY_H
