//===- FakeOneDnn.cpp - Substitute for oneDNN in tests --------------------===//
//
// A libdnnl.so.3 with the functions that OneDnn.h declares, implemented as plain sums, to test
// their callers on all machines. Weights in the preferred layout are transposed, with gaps.
// FAKE_ONEDNN=old: reports version 2; tbb: reports TBB threads.
//
//===----------------------------------------------------------------------===//

#include "cpu/OneDnn.h"
#include <cmath>
#include <cstdlib>
#include <cstring>

using tpc::rt::onednn::Enum;

namespace tpc::rt::onednn {
struct MemoryDesc {
  int64_t rows, columns, rowStride, columnStride; ///< strides of 0: any
  int64_t at(int64_t row, int64_t column) const { return row * rowStride + column * columnStride; }
};
struct Memory {
  MemoryDesc desc;
  float *data;
};
struct PrimitiveDesc {
  bool isMatmul;
  MemoryDesc weights;
};
struct Primitive {
  PrimitiveDesc desc;
};
struct Engine {};
struct Stream {};
struct Attributes {};
} // namespace tpc::rt::onednn

using namespace tpc::rt::onednn;

namespace {

constexpr Enum invalid = 2;
const MemoryDesc pad{1, 16, 16, 1};

bool isFake(const char *what) {
  const char *setting = std::getenv("FAKE_ONEDNN");
  return setting && !std::strcmp(setting, what);
}

template <class T> Enum make(T **result, const T &value) {
  *result = new T(value);
  return success;
}
template <class T> Enum end(T *value) {
  delete value;
  return success;
}

} // namespace

extern "C" {

const Version *dnnl_version() {
  static Version version{3, 99, 0, "fake", sequential, 0};
  version.major = isFake("old") ? 2 : 3;
  version.cpuRuntime = isFake("tbb") ? 4 : sequential;
  return &version;
}
Enum dnnl_get_effective_cpu_isa() { return 0; }
Enum dnnl_engine_create(Engine **engine, Enum kind, size_t) {
  return kind == cpuEngine ? make(engine, {}) : invalid;
}
Enum dnnl_stream_create(Stream **stream, Engine *, unsigned) { return make(stream, {}); }
Enum dnnl_stream_destroy(Stream *stream) { return end(stream); }
Enum dnnl_stream_wait(Stream *) { return success; }
Enum dnnl_memory_desc_create_with_strides(MemoryDesc **desc, int rank, const int64_t *sizes,
                                          Enum type, const int64_t *strides) {
  return rank == 2 && type == f32 ? make(desc, {sizes[0], sizes[1], strides[0], strides[1]})
                                  : invalid;
}
Enum dnnl_memory_desc_create_with_tag(MemoryDesc **desc, int rank, const int64_t *sizes, Enum type,
                                      Enum tag) {
  return rank == 2 && type == f32 && tag == anyTag ? make(desc, {sizes[0], sizes[1], 0, 0})
                                                   : invalid;
}
Enum dnnl_memory_desc_destroy(MemoryDesc *desc) { return end(desc); }
size_t dnnl_memory_desc_get_size(const MemoryDesc *desc) {
  return static_cast<size_t>(desc->at(desc->rows - 1, desc->columns - 1) + 1) * sizeof(float);
}
Enum dnnl_memory_create(Memory **memory, const MemoryDesc *desc, Engine *, void *data) {
  return make(memory, {*desc, static_cast<float *>(data)});
}
Enum dnnl_memory_destroy(Memory *memory) { return end(memory); }
Enum dnnl_primitive_attr_create(Attributes **attributes) { return make(attributes, {}); }
Enum dnnl_primitive_attr_set_scratchpad_mode(Attributes *, Enum mode) {
  return mode == userScratchpad ? success : invalid;
}
Enum dnnl_primitive_attr_set_fpmath_mode(Attributes *, Enum mode) {
  return mode == strictMath ? success : invalid;
}
Enum dnnl_matmul_primitive_desc_create(PrimitiveDesc **desc, Engine *, const MemoryDesc *x,
                                       const MemoryDesc *w, const MemoryDesc *bias,
                                       const MemoryDesc *out, const Attributes *attributes) {
  if (bias || !attributes || x->columns != w->rows || x->rows != out->rows ||
      w->columns != out->columns)
    return invalid;
  MemoryDesc weights = *w;
  if (!weights.rowStride) {
    weights.rowStride = 1;
    weights.columnStride = weights.rows + 3;
  }
  return make(desc, {true, weights});
}
Enum dnnl_reorder_primitive_desc_create(PrimitiveDesc **desc, const MemoryDesc *from, Engine *,
                                        const MemoryDesc *to, Engine *, const Attributes *) {
  return from->rows == to->rows && from->columns == to->columns ? make(desc, {false, *to})
                                                                : invalid;
}
const MemoryDesc *dnnl_primitive_desc_query_md(const PrimitiveDesc *desc, Enum what, int) {
  return what == queryWeights ? &desc->weights : what == queryScratchpad ? &pad : nullptr;
}
Enum dnnl_primitive_desc_destroy(PrimitiveDesc *desc) { return end(desc); }
Enum dnnl_primitive_create(Primitive **primitive, const PrimitiveDesc *desc) {
  return make(primitive, {*desc});
}
Enum dnnl_primitive_destroy(Primitive *primitive) { return end(primitive); }

Enum dnnl_primitive_execute(const Primitive *primitive, Stream *, int count,
                            const Argument *arguments) {
  const Memory *from = nullptr, *right = nullptr, *to = nullptr, *scratchpad = nullptr;
  for (int i = 0; i < count; ++i)
    (arguments[i].index == source        ? from
     : arguments[i].index == weights     ? right
     : arguments[i].index == destination ? to
                                         : scratchpad) = arguments[i].memory;
  if (!from || !to || (primitive->desc.isMatmul && (!right || !scratchpad)))
    return invalid;
  if (scratchpad)
    for (int64_t i = 0; i < pad.columns; ++i)
      scratchpad->data[i] = NAN;
  for (int64_t i = 0; i < to->desc.rows; ++i)
    for (int64_t j = 0; j < to->desc.columns; ++j) {
      float sum = 0;
      if (primitive->desc.isMatmul)
        for (int64_t l = 0; l < from->desc.columns; ++l)
          sum += from->data[from->desc.at(i, l)] * right->data[right->desc.at(l, j)];
      else
        sum = from->data[from->desc.at(i, j)];
      to->data[to->desc.at(i, j)] = sum;
    }
  return success;
}

} // extern "C"
