//===- OneDnnDevice.cpp - CPU device with oneDNN matmuls ------------------===//

#include "cpu/OneDnnDevice.h"
#include "core/Context.h"
#include "core/HostMemory.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/OneDnn.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace tpc::rt {
namespace {

using namespace onednn;

/// Rows and columns of a block.
constexpr int64_t blockRows = 128, blockColumns = 192;

const Library &library() {
  std::string ignored;
  return *Library::load(ignored);
}

void check(Enum status, const char *what) {
  if (status != success)
    throw std::runtime_error(std::string("oneDNN cannot ") + what + " (status " +
                             std::to_string(status) + ")");
}

struct FreeDesc {
  void operator()(MemoryDesc *desc) const { library().memory_desc_destroy(desc); }
};
using Desc = std::unique_ptr<MemoryDesc, FreeDesc>;

Desc describe(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  int64_t sizes[] = {rows, columns}, strides[] = {rowStride, columnStride};
  MemoryDesc *desc = nullptr;
  check(library().memory_desc_create_with_strides(&desc, 2, sizes, f32, strides),
        "describe a matrix");
  return Desc(desc);
}

/// A oneDNN tensor for one call.
class Tensor {
public:
  Tensor(const MemoryDesc *desc, const void *data)
      : status(library().memory_create(&memory, desc, library().engine, const_cast<void *>(data))) {
  }
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;
  ~Tensor() {
    if (memory)
      library().memory_destroy(memory);
  }
  Memory *memory = nullptr;
  const Enum status;
};

/// Returns this thread's stream. oneDNN uses only this thread.
Stream *threadStream() {
  struct OwnedStream {
    OwnedStream() {
      if (library().setThreads)
        library().setThreads(1);
      library().stream_create(&stream, library().engine, inOrderStream);
    }
    ~OwnedStream() {
      if (stream)
        library().stream_destroy(stream);
    }
    Stream *stream = nullptr;
  };
  static thread_local OwnedStream owned;
  return owned.stream;
}

/// Runs a primitive on this thread.
Enum execute(const Primitive *primitive, std::initializer_list<std::pair<int, const Tensor *>> on) {
  Argument arguments[4];
  int count = 0;
  for (auto [index, tensor] : on) {
    if (tensor->status != success)
      return tensor->status;
    arguments[count++] = {index, tensor->memory};
  }
  Stream *stream = threadStream();
  if (!stream)
    return -1;
  Enum status = library().primitive_execute(primitive, stream, count, arguments);
  return status == success ? library().stream_wait(stream) : status;
}

/// A primitive and its generated code.
class GeneratedPrimitive {
public:
  GeneratedPrimitive(PrimitiveDesc *desc) : desc(desc) {
    check(library().primitive_create(&primitive, desc), "make code for a matmul");
  }
  GeneratedPrimitive(const GeneratedPrimitive &) = delete;
  GeneratedPrimitive &operator=(const GeneratedPrimitive &) = delete;
  ~GeneratedPrimitive() {
    library().primitive_destroy(primitive);
    library().primitive_desc_destroy(desc);
  }
  const MemoryDesc *query(Enum what) const {
    return library().primitive_desc_query_md(desc, what, 0);
  }
  Primitive *primitive = nullptr;

private:
  PrimitiveDesc *desc;
};

/// out[m, n] = x[m, k] * w[k, n] of fixed sizes. Weights are in oneDNN's preferred layout, or the
/// transpose of a dense [n, k].
class Multiply {
public:
  Multiply(int64_t m, int64_t k, int64_t n, int64_t outStride, const MemoryDesc *weightsDesc)
      : x(tpc::rt::describe(m, k, k, 1)), out(tpc::rt::describe(m, n, outStride, 1)),
        made(make(*this, weightsDesc)) {}

  /// Required layout of the weights.
  const MemoryDesc *weightsDesc() const { return made.query(queryWeights); }
  size_t scratchBytes() const {
    return library().memory_desc_get_size(made.query(queryScratchpad));
  }

  Enum run(const float *from, const float *right, float *to, void *scratch) const {
    Tensor source(x.get(), from), weights(weightsDesc(), right), destination(out.get(), to),
        pad(made.query(queryScratchpad), scratch);
    return execute(made.primitive, {{onednn::source, &source},
                                    {onednn::weights, &weights},
                                    {onednn::destination, &destination},
                                    {onednn::scratchpad, &pad}});
  }

private:
  static PrimitiveDesc *make(const Multiply &self, const MemoryDesc *weightsDesc) {
    PrimitiveDesc *desc = nullptr;
    check(library().matmul_primitive_desc_create(&desc, library().engine, self.x.get(), weightsDesc,
                                                 nullptr, self.out.get(), library().attributes),
          "compute a matmul");
    return desc;
  }
  Desc x, out;
  GeneratedPrimitive made;
};

/// Matmul primitives by size, shared by all ranks of the process. They are few and never freed.
const Multiply &multiply(int64_t m, int64_t k, int64_t n, int64_t outStride, bool transposed) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, bool>, std::unique_ptr<Multiply>>
      all;
  std::lock_guard<std::mutex> lock(mutex);
  auto find = [&](int64_t rows, int64_t stride, auto weightsDesc) -> const Multiply & {
    auto &entry = all[{rows, k, n, stride, transposed}];
    if (!entry) {
      // The description must exist until the code, which stores the layout, is generated.
      auto desc = weightsDesc();
      entry = std::make_unique<Multiply>(rows, k, n, stride, &*desc);
    }
    return *entry;
  };
  if (transposed)
    return find(m, outStride, [&] { return tpc::rt::describe(k, n, 1, k); });
  // All other sizes use the preferred layout of whole blocks.
  const Multiply &wholeBlock = find(blockRows, n, [&] {
    int64_t sizes[] = {k, n};
    MemoryDesc *desc = nullptr;
    check(library().memory_desc_create_with_tag(&desc, 2, sizes, f32, anyTag), "describe weights");
    return Desc(desc);
  });
  return find(m, outStride, [&] { return wholeBlock.weightsDesc(); });
}

struct FreeMemory {
  void operator()(void *memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float, FreeMemory>;

Floats allocateFloats(int64_t count) {
  Floats floats(static_cast<float *>(allocateTensor(static_cast<size_t>(count) * sizeof(float))));
  if (!floats)
    throw std::bad_alloc();
  return floats;
}

/// Columns [column, column + columns) of a matrix.
struct Panel {
  int64_t column, columns;
  int64_t offset; ///< offset of its weights, in floats
};

std::vector<Panel> panelsOf(int64_t k, int64_t n, bool transposed, int64_t &floats) {
  std::vector<Panel> panels;
  floats = 0;
  for (int64_t column = 0; column < n; column += blockColumns) {
    int64_t columns = std::min(blockColumns, n - column);
    panels.push_back({column, columns, transposed ? column * k : floats});
    constexpr int64_t line = 64;
    if (!transposed)
      floats +=
          static_cast<int64_t>((library().memory_desc_get_size(
                                    multiply(blockRows, k, columns, columns, false).weightsDesc()) +
                                line - 1) /
                               line * line) /
          static_cast<int64_t>(sizeof(float));
  }
  return panels;
}

class OneDnnMatrix : public Matrix {
public:
  OneDnnMatrix(int64_t k, int64_t n) : Matrix(k, n) {
    int64_t floats = 0;
    panels = panelsOf(k, n, false, floats);
    packed = allocateFloats(floats);
    dense = allocateFloats(k * n);
    data = packed.get();
  }
  OneDnnMatrix(const float *rows, int64_t k, int64_t n)
      : Matrix(k, n), isTransposed(true), data(rows) {
    int64_t floats = 0;
    panels = panelsOf(k, n, true, floats);
  }

  /// Copies rows to a dense buffer. oneDNN packs whole panels, so packing starts after the last
  /// row.
  void setRows(int64_t row0, int64_t row1, const float *rows) {
    std::copy_n(rows, (row1 - row0) * n, dense.get() + row0 * n);
    rowsSet += row1 - row0;
    if (rowsSet < k)
      return;
    for (const Panel &panel : panels) {
      Desc from = describe(k, panel.columns, n, 1);
      const MemoryDesc *to =
          multiply(blockRows, k, panel.columns, panel.columns, false).weightsDesc();
      PrimitiveDesc *desc = nullptr;
      check(library().reorder_primitive_desc_create(&desc, from.get(), library().engine, to,
                                                    library().engine, nullptr),
            "pack weights");
      GeneratedPrimitive made(desc);
      Tensor plain(from.get(), dense.get() + panel.column),
          packedPanel(to, packed.get() + panel.offset);
      check(execute(made.primitive, {{source, &plain}, {destination, &packedPanel}}),
            "pack weights");
    }
    dense.reset();
  }

  const bool isTransposed = false;
  std::vector<Panel> panels;
  const float *data = nullptr;

private:
  Floats packed, dense;
  int64_t rowsSet = 0;
};

/// Applies bias, activation and residual to a block, as GemmKernel.h does.
void finish(const Product &p, int64_t n, const Panel &panel, int64_t row0, int64_t rows,
            float *block, int64_t blockStride) {
  for (int64_t row = 0; row < rows; ++row) {
    float *values = block + row * blockStride;
    if (p.bias)
      for (int64_t i = 0; i < panel.columns; ++i)
        values[i] += p.bias[panel.column + i];
    if (p.epilogue != TPC_EPILOGUE_NONE)
      kernels().activate(values, values, panel.columns, p.epilogue);
    if (p.residual) {
      int64_t at = (row0 + row) * n + panel.column;
      for (int64_t i = 0; i < panel.columns; ++i)
        p.out[at + i] = values[i] + p.residual[at + i];
    }
  }
}

class OneDnnDevice : public CpuDevice {
public:
  explicit OneDnnDevice(tpc_context &ctx) : CpuDevice(ctx) {}

  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override {
    std::vector<std::shared_ptr<Matrix>> matrices;
    for (int64_t n : widths)
      if (k == 0 || n == 0)
        matrices.push_back(CpuDevice::makeMatrices(k, {&n, 1}, dtype)[0]);
      else
        matrices.push_back(std::make_shared<OneDnnMatrix>(k, n));
    return matrices;
  }
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) override {
    if (auto *oneDnnMatrix = dynamic_cast<OneDnnMatrix *>(&matrix))
      oneDnnMatrix->setRows(row0, row1, static_cast<const float *>(rows));
    else
      CpuDevice::setRows(matrix, row0, row1, rows);
  }
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                      int32_t dtype) override {
    if (k == 0 || n == 0 || dtype != TPC_F32)
      return CpuDevice::transposeOf(rows, k, n, dtype);
    return std::make_shared<OneDnnMatrix>(static_cast<const float *>(rows), k, n);
  }

  void multiply(const Products &products) override {
    for (const Product &product : products.list)
      if (auto *matrix = dynamic_cast<const OneDnnMatrix *>(product.matrix))
        multiplyOne(products, product, *matrix);
      else
        CpuDevice::multiply({products.x, products.m, products.k, {&product, 1}});
  }

private:
  void multiplyOne(const Products &all, const Product &p, const OneDnnMatrix &matrix) {
    int64_t m = all.m, k = matrix.k, n = matrix.n;
    // `out` may alias the residual, so sums with a residual are first stored in a separate buffer.
    bool direct = !p.residual;
    auto find = [&](int64_t rows, const Panel &panel) -> const Multiply & {
      return rt::multiply(rows, k, panel.columns, direct ? n : panel.columns, matrix.isTransposed);
    };
    // Makes the primitives of all block shapes: whole blocks, the last rows, the last columns.
    int64_t blocks = (m + blockRows - 1) / blockRows, lastRows = m - (blocks - 1) * blockRows;
    const Multiply *made[2][2];
    size_t padBytes = 0;
    for (bool isLastRow : {false, true})
      for (bool isLastColumn : {false, true}) {
        const Panel &panel = isLastColumn ? matrix.panels.back() : matrix.panels.front();
        const Multiply &one = find(isLastRow || blocks == 1 ? lastRows : blockRows, panel);
        made[isLastRow][isLastColumn] = &one;
        padBytes = std::max(padBytes, one.scratchBytes());
      }
    int64_t padFloats = static_cast<int64_t>((padBytes + 63) / 64 * 16);
    int64_t floatsOfThread = padFloats + (direct ? 0 : blockRows * blockColumns);
    int threads = threadsFor(ctx, m, k, n);
    auto panels = static_cast<int64_t>(matrix.panels.size());
    Scratch memory(scratch, threads * floatsOfThread);
    std::atomic<Enum> failure{success};
    // Consecutive tasks differ in rows first, so that weights stay in the cache.
    forEachTask(ctx, threads, blocks * panels, [&](int64_t task, int worker) {
      int64_t row0 = task % blocks * blockRows, rows = std::min(blockRows, m - row0);
      const Panel &panel = matrix.panels[static_cast<size_t>(task / blocks)];
      const Multiply &one = *made[task % blocks + 1 == blocks][task / blocks + 1 == panels];
      float *pad = memory.data + worker * floatsOfThread, *block = pad + padFloats;
      if (direct)
        block = p.out + row0 * n + panel.column;
      if (Enum status = one.run(all.x + row0 * k, matrix.data + panel.offset, block, pad))
        failure = status;
      else
        finish(p, n, panel, row0, rows, block, direct ? n : panel.columns);
    });
    if (failure != success)
      fail(ctx, "oneDNN cannot compute a matmul (status " + std::to_string(failure) + ")");
  }
};

class OneDnnDevices : public DeviceKind {
public:
  const char *name() const override { return "cpu"; }
  const char *kernels() const override { return rt::kernels().name; }
  void shareKernels(const std::vector<std::string> &names) const override {
    cpuDevices().shareKernels(names);
  }
  std::string environmentProblem() const override { return cpuDevices().environmentProblem(); }
  std::string products() const override { return library().describe(); }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t) const override {
    int64_t floats = 0;
    panelsOf(k, n, false, floats);
    return floats * static_cast<int64_t>(sizeof(float));
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    return std::make_unique<OneDnnDevice>(ctx);
  }
};

} // namespace

const DeviceKind *oneDnnDevices(std::string &problem) {
  static const OneDnnDevices devices;
  return Library::load(problem) ? &devices : nullptr;
}

} // namespace tpc::rt
