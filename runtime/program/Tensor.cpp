//===- Tensor.cpp - Element types, and tensors of programs ----------------===//

#include "program/Tensor.h"
#include "core/Half.h"
#include "core/HostMemory.h"
#include "program/Error.h"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace tpc::rt {
namespace {
struct DtypeInfo {
  const char *name;
  int bytes;
};
/// Names and sizes, indexed by tpc_dtype.
constexpr DtypeInfo dtypes[] = {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i8", 1},
                                {"i16", 2}, {"i32", 4}, {"i64", 8}, {"bool", 1}, {"u8", 1}};
} // namespace

int64_t dtypeBytes(tpc_dtype dtype) { return dtypes[dtype].bytes; }
const char *dtypeName(tpc_dtype dtype) { return dtypes[dtype].name; }

std::optional<tpc_dtype> dtypeNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(dtypes); ++i)
    if (name == dtypes[i].name)
      return static_cast<tpc_dtype>(i);
  return std::nullopt;
}

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<int64_t> elementCount(const Shape &shape) {
  // A size of zero makes the tensor empty, whatever the other sizes.
  bool empty = false, overflow = false;
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(count, size, &count);
  }
  if (empty)
    return 0;
  return overflow ? std::nullopt : std::optional(count);
}

std::optional<int64_t> byteCount(const Shape &shape, tpc_dtype dtype) {
  auto count = elementCount(shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, dtypeBytes(dtype), &bytes))
    return std::nullopt;
  return bytes;
}

Buffer::Buffer(int64_t size) : bytes(size) {
  memory.reset(static_cast<std::byte *>(allocateTensor(static_cast<size_t>(size))));
  if (!memory)
    throw UserError("out of memory: cannot allocate " + std::to_string(size) + " bytes");
}

Buffer Buffer::borrow(const void *data, int64_t bytes) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.memory = {static_cast<std::byte *>(const_cast<void *>(data)), Free{false}};
  return buffer;
}

Buffer Buffer::lend(std::byte *data, int64_t bytes,
                    std::function<void(const std::byte *)> release) {
  Buffer buffer = borrow(data, bytes);
  buffer.memory.get_deleter().release = std::move(release);
  return buffer;
}

void Buffer::Free::operator()(std::byte *p) const {
  if (release)
    release(p);
  else if (owns)
    std::free(p);
}

Shape positionOf(int64_t i, const Shape &shape) {
  Shape position(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d])
    position[d] = i % shape[d];
  return position;
}

double numberAt(const Tensor &tensor, int64_t i) {
  switch (tensor.dtype) {
  case TPC_F32:
    return tensor.as<float>()[i];
  case TPC_F16:
    return halfToFloat(tensor.as<uint16_t>()[i]);
  case TPC_BF16:
    return bfloatToFloat(tensor.as<uint16_t>()[i]);
  case TPC_I32:
    return tensor.as<int32_t>()[i];
  case TPC_I16:
    return tensor.as<int16_t>()[i];
  case TPC_I8:
    return tensor.as<int8_t>()[i];
  case TPC_U8:
  case TPC_BOOL:
    return tensor.as<uint8_t>()[i];
  default:
    return tensor.as<double>()[i];
  }
}

} // namespace tpc::rt
