//===- Memory.cpp - Memory of one rank, and what was written to it --------===//

#include "Memory.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

bool Place::exists(int64_t element) const {
  return element >= 0 && byteOf(element) >= 0 &&
         byteOf(element + 1) <= int64_t(memory->bytes.size());
}

bool Place::isWritten(int64_t element) const {
  for (int64_t i = byteOf(element); i < byteOf(element + 1); ++i)
    if (!memory->written[i])
      return false;
  return true;
}

template <typename T> static T read(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Scalar Place::load(int64_t element) const {
  const std::byte *at = memory->bytes.data() + byteOf(element);
  Scalar value;
  if (auto floats = dyn_cast<FloatType>(type)) {
    if (!memory->rounds)
      value.f = memory->exact[byteOf(element)];
    else if (type.isF32())
      value.f = read<float>(at);
    else if (type.isF64())
      value.f = read<double>(at);
    else {
      llvm::APInt bits(16, read<uint16_t>(at));
      value.f = llvm::APFloat(floats.getFloatSemantics(), bits).convertToDouble();
    }
    return value;
  }
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    value.i = read<uint8_t>(at) != 0;
    break;
  case 8:
    value.i = read<int8_t>(at);
    break;
  case 16:
    value.i = read<int16_t>(at);
    break;
  case 32:
    value.i = read<int32_t>(at);
    break;
  default:
    value.i = read<int64_t>(at);
  }
  return value;
}

void Place::store(int64_t element, Scalar value) const {
  std::byte *at = memory->bytes.data() + byteOf(element);
  auto write = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  if (auto floats = dyn_cast<FloatType>(type)) {
    if (!memory->rounds) {
      memory->exact[byteOf(element)] = value.f;
    } else if (type.isF32()) {
      write(float(value.f));
    } else if (type.isF64()) {
      write(value.f);
    } else {
      llvm::APFloat x(value.f);
      bool lossy;
      x.convert(floats.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      write(uint16_t(x.bitcastToAPInt().getZExtValue()));
    }
  } else {
    switch (type.getIntOrFloatBitWidth()) {
    case 1:
      write(uint8_t(value.i & 1));
      break;
    case 8:
      write(int8_t(value.i));
      break;
    case 16:
      write(int16_t(value.i));
      break;
    case 32:
      write(int32_t(value.i));
      break;
    default:
      write(value.i);
    }
  }
  std::fill(memory->written.begin() + byteOf(element),
            memory->written.begin() + byteOf(element + 1), true);
}

void Place::forget() const {
  for (int64_t i = begin; i < byteOf(elements) && i < int64_t(memory->written.size()); ++i)
    memory->written[i] = false;
}
