//===- Memory.h - Memory of one rank, and what was written to it -*- C++ -*-===//
//
// Elements lie in memory as they do when the program runs: in bytes, of their own type. Arithmetic
// is in doubles, so a number is rounded to its type where it is stored or cast, and nowhere else;
// or not at all, to tell what rounding does from what a mistake does.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_MEMORY_H
#define TPC_LIB_VERIFY_LOWERED_MEMORY_H

#include "tpc/Dialect/Elements.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace mlir::tpc::lowered {

/// A scalar: floats in doubles, integers, truth values and indices in 64 bits (sign-extended).
union Scalar {
  double f;
  int64_t i;
};

/// One allocation. Its bytes mean nothing until they are written.
struct Memory {
  /// Bytes that no frame of a run at small sizes needs.
  static constexpr int64_t largest = 1 << 27;

  /// `rounds`: floats are rounded to their type; else they stay what they are.
  Memory(int64_t size, bool rounds)
      : bytes(size), written(size), exact(rounds ? 0 : size), rounds(rounds) {}
  std::vector<std::byte> bytes;
  std::vector<bool> written;
  std::vector<double> exact; // by the first byte
  bool rounds;
};

/// A type of elements, with what each access asks of it.
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

/// Elements of one type in an allocation, from a byte on.
struct Place {
  std::shared_ptr<Memory> memory;
  int64_t begin = 0;
  int64_t elements = 0;
  ElementType type;

  int64_t byteOf(int64_t element) const { return begin + element * type.getBytes(); }
  /// Whether all of an element's bytes are in the allocation; whether they are written.
  bool exists(int64_t element) const;
  bool isWritten(int64_t element) const;
  Scalar load(int64_t element) const;
  void store(int64_t element, Scalar value) const;
  /// From now on nobody has written them.
  void forget() const;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_MEMORY_H
