//===- Memory.h - Simulated memory of one rank ------------------*- C++ -*-===//
//
// Elements have the same layout in memory as in the executable: bytes of their own type. Arithmetic
// is in doubles, and a number is rounded to its type only where it is stored or cast. Rounding can
// be disabled, to tell errors from rounding.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_MEMORY_H
#define TPC_LIB_VERIFY_LOWERED_MEMORY_H

#include "tpc/Dialect/Elements.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace mlir::tpc::lowered {

/// A scalar: floats as doubles; integers, booleans and indices in 64 bits, sign-extended.
union Scalar {
  double f;
  int64_t i;
};

/// One allocation. Its bytes are undefined until they are written.
struct Memory {
  /// Maximum size in bytes. No frame of a run at small sizes reaches it.
  static constexpr int64_t largest = 1 << 27;

  /// `rounds`: floats are rounded to their type; else they are stored exactly.
  Memory(int64_t size, bool rounds)
      : bytes(size), written(size), exact(rounds ? 0 : size), rounds(rounds) {}
  std::vector<std::byte> bytes;
  std::vector<bool> written;
  std::vector<double> exact; // value of each float, at the index of its first byte
  bool rounds;
};

/// An element type with the properties that each access needs.
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

/// Elements of one type in an allocation, from byte `begin` on.
struct MemoryView {
  std::shared_ptr<Memory> memory;
  int64_t begin = 0;
  int64_t elements = 0;
  ElementType type;

  int64_t byteOf(int64_t element) const { return begin + element * type.getBytes(); }
  /// Returns whether all bytes of an element are in the allocation; isWritten: and are written.
  bool exists(int64_t element) const;
  bool isWritten(int64_t element) const;
  Scalar load(int64_t element) const;
  void store(int64_t element, Scalar value) const;
  /// Marks all elements as not written.
  void forget() const;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_MEMORY_H
