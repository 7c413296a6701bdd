//===- Tensor.h - Element types, and tensors of programs ------------------===//

#ifndef TPC_RT_PROGRAM_TENSOR_H
#define TPC_RT_PROGRAM_TENSOR_H

#include "tpc/runtime.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

int64_t dtypeBytes(tpc_dtype dtype);
/// "f32", "i64", …: the manifest's spelling.
const char *dtypeName(tpc_dtype dtype);
std::optional<tpc_dtype> dtypeNamed(std::string_view name);

using Shape = std::vector<int64_t>;
/// "[2, 3]".
std::string shapeText(const Shape &shape);
/// Returns the number of elements; nothing if it exceeds 63 bits or a size is negative.
std::optional<int64_t> elementCount(const Shape &shape);
/// The same as `elementCount`, in bytes.
std::optional<int64_t> byteCount(const Shape &shape, tpc_dtype dtype);
/// Index of element `i` in row-major order.
Shape positionOf(int64_t i, const Shape &shape);

/// 64-byte aligned memory, owned or borrowed, never null. Throws UserError if out of memory.
class Buffer {
public:
  Buffer() = default;
  explicit Buffer(int64_t bytes);
  /// Refers to memory that outlives the buffer, and is only read.
  static Buffer borrow(const void *data, int64_t bytes);
  /// Refers to memory that is valid until the buffer is destroyed, which calls `release`.
  static Buffer lend(std::byte *data, int64_t bytes,
                     std::function<void(const std::byte *data)> release);
  std::byte *data() const { return memory.get(); }
  int64_t size() const { return bytes; }

private:
  struct Free {
    Free() : owns(true) {}
    explicit Free(bool owns) : owns(owns) {}
    void operator()(std::byte *p) const;
    bool owns;
    std::function<void(const std::byte *)> release;
  };
  std::unique_ptr<std::byte, Free> memory;
  int64_t bytes = 0;
};

/// Dense, row-major.
struct Tensor {
  tpc_dtype dtype = TPC_F32;
  Shape shape;
  Buffer data;

  template <class T> T *as() const { return reinterpret_cast<T *>(data.data()); }
  int64_t count() const { return data.size() / dtypeBytes(dtype); }
};

/// Returns an element of any type except i64, which may exceed the precision of a double.
double numberAt(const Tensor &tensor, int64_t i);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TENSOR_H
