//===- Memory.cpp - Simulated memory of one rank --------------------------===//

#include "Memory.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

ElementType::ElementType(Type type) : type(type) {
  if (!type)
    return;
  bytes = getElementBytes(type);
  if (isa<FloatType>(type)) {
    kind = type.isF32() ? F32 : type.isF64() ? F64 : Half;
    return;
  }
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    kind = I1;
    break;
  case 8:
    kind = I8;
    break;
  case 16:
    kind = I16;
    break;
  case 32:
    kind = I32;
    break;
  default:
    kind = I64;
  }
}

MemoryView MemoryView::getSpan() const {
  return {memory, begin, elements > 0 ? positionOf(elements - 1) + 1 : 0, type};
}

template <typename T> static T read(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string lowered::explainUnspecified(Scalar value) {
  Operation *op = value.conversion;
  std::string text;
  llvm::raw_string_ostream(text) << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                                 << ") has no integer for " << std::to_string(value.f);
  return text;
}

Scalar MemoryView::load(int64_t element) const {
  int64_t byte = byteOf(element);
  if (!memory->unspecified.empty()) {
    auto found = memory->unspecified.lower_bound(byte);
    if (found != memory->unspecified.end() && found->first < byte + type.getBytes())
      return found->second;
  }
  const std::byte *at = memory->bytes.data() + byte;
  Scalar value;
  if (type.isFloat() && !memory->rounds) {
    value.f = memory->exact[byte / 2];
    return value;
  }
  switch (type.getKind()) {
  case ElementType::F32:
    value.f = read<float>(at);
    break;
  case ElementType::F64:
    value.f = read<double>(at);
    break;
  case ElementType::Half: {
    llvm::APInt bits(16, read<uint16_t>(at));
    value.f =
        llvm::APFloat(cast<FloatType>(Type(type)).getFloatSemantics(), bits).convertToDouble();
    break;
  }
  case ElementType::I1:
    value.i = read<uint8_t>(at) != 0;
    break;
  case ElementType::I8:
    value.i = read<int8_t>(at);
    break;
  case ElementType::I16:
    value.i = read<int16_t>(at);
    break;
  case ElementType::I32:
    value.i = read<int32_t>(at);
    break;
  case ElementType::I64:
    value.i = read<int64_t>(at);
    break;
  }
  return value;
}

void MemoryView::store(int64_t element, Scalar value) const {
  int64_t byte = byteOf(element);
  std::byte *at = memory->bytes.data() + byte;
  auto write = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  std::map<int64_t, Scalar> &unspecified = memory->unspecified;
  if (!unspecified.empty())
    unspecified.erase(unspecified.lower_bound(byte),
                      unspecified.lower_bound(byte + type.getBytes()));
  if (value.isUnspecified()) {
    for (int64_t i = byte; i < byte + type.getBytes(); ++i)
      unspecified[i] = value;
    value.i = 0;
  }
  if (type.isFloat() && !memory->rounds) {
    memory->exact[byte / 2] = value.f;
  } else {
    switch (type.getKind()) {
    case ElementType::F32:
      write(float(value.f));
      break;
    case ElementType::F64:
      write(value.f);
      break;
    case ElementType::Half: {
      llvm::APFloat x(value.f);
      bool lossy;
      x.convert(cast<FloatType>(Type(type)).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &lossy);
      write(uint16_t(x.bitcastToAPInt().getZExtValue()));
      break;
    }
    case ElementType::I1:
      write(uint8_t(value.i & 1));
      break;
    case ElementType::I8:
      write(int8_t(value.i));
      break;
    case ElementType::I16:
      write(int16_t(value.i));
      break;
    case ElementType::I32:
      write(int32_t(value.i));
      break;
    case ElementType::I64:
      write(value.i);
      break;
    }
  }
  std::memset(memory->written.data() + byte, 1, type.getBytes());
}

void MemoryView::forget() const {
  for (int64_t element = 0; element < elements && exists(element); ++element)
    std::memset(memory->written.data() + byteOf(element), 0, type.getBytes());
}
