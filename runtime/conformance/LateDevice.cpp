//===- LateDevice.cpp - Adversarial test device ---------------------------===//

#include "LateDevice.h"
#include "LateBackend.h"
#include "core/Context.h"
#include "core/DType.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tpc::rt::conformance {
namespace {

constexpr int poison = 0xff; // NaN as a float, -1 as an integer

/// Dedicated pages, followed by an inaccessible one.
struct Pages {
  size_t size;

  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  void protect(void *begin, bool accessible) const {
    mprotect(begin, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
};

/// A range that an operation reads or writes.
struct Access {
  const void *begin;
  int64_t bytes;
  bool writes;

  bool conflictsWith(const Access &other) const {
    auto *first = static_cast<const char *>(begin),
         *second = static_cast<const char *>(other.begin);
    return (writes || other.writes) && first < second + other.bytes && second < first + bytes;
  }
};
using Accesses = std::vector<Access>;

constexpr int64_t f32 = sizeof(float);

// Fails if a field is added, because that field may have to be listed as an access below. The field
// `pages` is always null here.
static_assert(sizeof(Product) == 48 && sizeof(BatchProduct) == 80 &&
              sizeof(tpc_attention_args) == 304 && sizeof(tpc_append_args) == 104 &&
              sizeof(tpc_experts_args) == 144 && sizeof(tpc_quantized_args) == 160);

Accesses accessesOf(const Products &all, const Product &p, const void *table) {
  int64_t m = all.m, k = all.k, n = p.matrix->n;
  int64_t results = p.outStride ? (m - 1) * p.outStride + n : m * n;
  return {{all.x, m * k * f32, false},
          {p.bias, p.bias ? n * f32 : 0, false},
          {p.residual, p.residual ? results * f32 : 0, false},
          {table, table ? k * n * f32 : 0, false},
          {p.out, results * f32, true}};
}

Accesses accessesOf(const BatchProduct &p) {
  return {{p.a, ((p.batch - 1) * p.aStride + p.m * p.k) * f32, false},
          {p.b, ((p.batch - 1) * p.bStride + p.k * p.n) * f32, false},
          {p.out, p.batch * p.m * p.n * f32, true}};
}

Accesses accessesOf(const tpc_quantized_args &a) {
  int64_t blocks = (a.k + a.block - 1) / a.block, results = a.m * a.n * f32;
  auto count = [&](int64_t column, int64_t block) {
    return (a.n - 1) * column + (blocks - 1) * block + 1;
  };
  int64_t zeros = count(a.zero_column_stride, a.zero_block_stride),
          scaleBytes = sizeOf(a.scale_dtype);
  return {{a.x, a.m * a.k * f32, false},
          {a.packed, (a.by_rows ? a.k : a.n) * a.row_bytes, false},
          {a.scale, count(a.scale_column_stride, a.scale_block_stride) * scaleBytes, false},
          {a.zero,
           !a.zero       ? 0
           : a.zero_bits ? (zeros * a.zero_bits + 7) / 8
                         : zeros * scaleBytes,
           false},
          {a.bias, a.bias ? a.n * f32 : 0, false},
          {a.residual, a.residual ? results : 0, false},
          {a.out, results, true}};
}

Accesses accessesOf(const tpc_attention_args &a) {
  auto rows = [&](const void *begin, int64_t count, int64_t stride, int64_t last, bool writes) {
    return Access{begin, count > 0 ? ((count - 1) * stride + last) * f32 : 0, writes};
  };
  auto scores = [&](const void *begin, int64_t batchStride, int64_t headStride, int64_t element) {
    int64_t all = (a.batch - 1) * batchStride + (a.heads_q - 1) * headStride + a.seq_q * a.seq_k;
    return Access{begin, begin ? all * element : 0, false};
  };
  auto ofCache = [&](const void *begin, int64_t batch, int64_t head, int64_t row, int64_t size) {
    int64_t last = (a.batch - 1) * batch + (a.heads_kv - 1) * head + (a.seq_k - 1) * row;
    return Access{begin, a.seq_k > 0 ? (last + size) * f32 : 0, false};
  };
  int64_t queries = a.batch * a.seq_q, keys = a.batch * a.seq_k;
  return {rows(a.q, queries, a.q_row_stride, a.heads_q * a.head_size, false),
          a.lengths ? ofCache(a.k, a.k_batch_stride, a.k_head_stride, a.k_row_stride, a.head_size)
                    : rows(a.k, keys, a.k_row_stride, a.heads_kv * a.head_size, false),
          a.lengths ? ofCache(a.v, a.v_batch_stride, a.v_head_stride, a.v_row_stride, a.value_size)
                    : rows(a.v, keys, a.v_row_stride, a.heads_kv * a.value_size, false),
          {a.lengths, a.lengths ? a.batch * 8 : 0, false},
          rows(a.out, queries, a.out_row_stride, a.heads_q * a.value_size, true),
          {a.key_mask, a.key_mask ? keys : 0, false},
          scores(a.mask, a.mask_batch_stride, a.mask_head_stride, 1),
          scores(a.bias, a.bias_batch_stride, a.bias_head_stride, f32),
          {a.slopes, a.slopes ? a.heads_q * f32 : 0, false},
          {a.sinks, a.sinks ? a.heads_q * f32 : 0, false}};
}

Accesses accessesOf(tpc_attention_args a, const float *dout, float *dq, float *dk, float *dv) {
  int64_t queries = a.batch * a.seq_q * a.heads_q, keys = a.batch * a.seq_k * a.heads_kv;
  Accesses all = accessesOf(a);
  std::erase_if(all, [&](const Access &access) { return access.writes; }); // the result
  all.push_back({dout, queries * a.value_size * f32, false});
  all.push_back({dq, dq ? queries * a.head_size * f32 : 0, true});
  all.push_back({dk, dk ? keys * a.head_size * f32 : 0, true});
  all.push_back({dv, dv ? keys * a.value_size * f32 : 0, true});
  return all;
}

Accesses accessesOf(const tpc_experts_args &a) {
  int64_t element = sizeOf(a.dtype);
  int64_t matrix = a.experts * a.inner * a.hidden * element, vector = a.experts * a.inner * f32;
  return {{a.x, a.tokens * a.hidden * f32, false},
          {a.routing, a.tokens * a.all * f32, false},
          {a.up, matrix, false},
          {a.gate, a.gate ? matrix : 0, false},
          {a.up_bias, a.up_bias ? vector : 0, false},
          {a.gate_bias, a.gate_bias ? vector : 0, false},
          {a.down, a.experts * a.outputs * a.inner * element, false},
          {a.out, a.tokens * a.outputs * f32, true}};
}

Accesses accessesOf(const tpc_append_args &a) {
  int64_t element = sizeOf(a.dtype);
  int64_t last = (a.batch - 1) * a.fresh_batch_stride + (a.heads - 1) * a.fresh_head_stride +
                 (a.sequence - 1) * a.fresh_row_stride;
  return {{a.fresh, (last + a.size) * element, false},
          {a.lengths, a.batch * 8, false},
          {a.cache, a.batch * a.heads * a.capacity * a.size * element, true}};
}

std::atomic<int64_t> overtakings{0};

class LateDevice : public Device {
public:
  LateDevice(tpc_context &ctx, bool linked)
      : inner(cpuDevices().make(ctx)), random(seedOf(ctx)), linked(linked) {}

  ~LateDevice() override {
    queue.clear(); // work left by a failed step
    for (auto &[begin, pages] : memory)
      munmap(begin, pages.size + Pages::page());
  }

  void *allocate(int64_t bytes) override {
    if (bytes < 0)
      return nullptr;
    size_t page = Pages::page();
    Pages pages{(static_cast<size_t>(bytes) / page + 1) * page};
    void *begin = mmap(nullptr, pages.size + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED)
      return nullptr;
    std::memset(begin, poison, pages.size);
    mprotect(static_cast<char *>(begin) + pages.size, page, PROT_NONE);
    pages.protect(begin, accessible > 0);
    memory.emplace(begin, pages);
    return begin;
  }
  void release(void *begin) override {
    enqueue({wholeOf(begin)}, [this, begin] {
      auto it = memory.find(begin);
      munmap(begin, it->second.size + Pages::page());
      memory.erase(it);
    });
  }
  void discard(void *begin, int64_t bytes) override {
    enqueue({{begin, bytes, true}},
            [=] { std::memset(begin, poison, static_cast<size_t>(bytes)); });
  }
  void clear(void *begin, int64_t bytes) override { discard(begin, bytes); }
  const void *share(const void *host, int64_t bytes) override {
    void *own = allocate(bytes);
    if (!own)
      throw std::bad_alloc();
    enqueue({{own, bytes, true}}, [=] {
      if (bytes > 0)
        std::memcpy(own, host, static_cast<size_t>(bytes));
    });
    return own;
  }
  void unshare(const void *shared) override {
    release(const_cast<void *>(shared));
    run();
  }

  std::byte *beginWrite(void *to, int64_t bytes) override {
    writeTo = to;
    staging = std::make_shared<std::vector<std::byte>>(bytes, std::byte(poison));
    return staging->data();
  }
  void endWrite() override {
    auto bytes = static_cast<int64_t>(staging->size());
    enqueue({{writeTo, bytes, true}}, [to = writeTo, from = std::move(staging)] {
      if (!from->empty())
        std::memcpy(to, from->data(), from->size());
    });
  }
  const std::byte *beginRead(const void *from, int64_t bytes) override {
    run();
    staging = std::make_shared<std::vector<std::byte>>(bytes);
    Accessible scope(*this);
    if (bytes > 0)
      std::memcpy(staging->data(), from, static_cast<size_t>(bytes));
    return staging->data();
  }
  void endRead() override { staging.reset(); }
  void beginAccess() override {
    run();
    access(true);
  }
  void endAccess() override { access(false); }

  void load(const tpc_program &loaded) override {
    if (program == &loaded)
      return;
    program = &loaded;
    inner->load(loaded);
    for (int32_t i = 0; i < loaded.num_constants; ++i)
      constants.push_back(share(loaded.constants[i].data, loaded.constants[i].bytes));
  }
  const void *constant(int32_t index) override { return constants[index]; }
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override {
    return inner->makeMatrices(k, widths, dtype);
  }
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) override {
    inner->setRows(matrix, row0, row1, rows);
  }
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                      int32_t dtype) override {
    std::shared_ptr<Matrix> matrix = inner->transposeOf(rows, k, n, dtype);
    tables[matrix.get()] = rows;
    return matrix;
  }

  void beginStep(const std::vector<int64_t> &values) override {
    enqueue({{&env, 1, true}, {&status, 1, true}}, [this, values] {
      env = values;
      status = {};
      inner->beginStep(values);
    });
  }
  void setEnv(int32_t index, int64_t value) override {
    enqueue({{&env, 1, true}}, [=, this] {
      env[index] = value;
      inner->setEnv(index, value);
    });
  }
  void copy(void *to, const void *from, int64_t bytes) override {
    enqueue({{to, bytes, true}, {from, bytes, false}}, [=, this] { inner->copy(to, from, bytes); });
  }
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              int64_t) override {
    // The range that a kernel accesses is unknown, so the whole block of each operand is assumed.
    // Out-of-bounds errors are reported in program order.
    Accesses accesses{{&env, 1, false}, {&status, 1, true}};
    for (int32_t i = 0; i < count; ++i)
      accesses.push_back(wholeOf(operands[i]));
    enqueue(std::move(accesses), [=, this, list = std::vector<void *>(operands, operands + count)] {
      runKernel(kernel, list.data(), rows);
    });
  }
  void multiply(const Products &products) override {
    Accesses accesses;
    for (const Product &product : products.list) {
      auto table = tables.find(product.matrix);
      for (const Access &access :
           accessesOf(products, product, table == tables.end() ? nullptr : table->second))
        accesses.push_back(access);
    }
    enqueue(std::move(accesses),
            [=, this, list = std::vector(products.list.begin(), products.list.end())] {
              inner->multiply({products.x, products.m, products.k, list});
            });
  }
  void batchProduct(const BatchProduct &product) override {
    enqueue(accessesOf(product), [=, this] { inner->batchProduct(product); });
  }
  void quantizedProduct(const tpc_quantized_args &args) override {
    enqueue(accessesOf(args), [=, this] { inner->quantizedProduct(args); });
  }
  void attention(const tpc_attention_args &args) override {
    enqueue(accessesOf(args), [=, this] { inner->attention(args); });
  }
  void attentionGrad(const tpc_attention_args &args, const float *dout, float *dq, float *dk,
                     float *dv) override {
    enqueue(accessesOf(args, dout, dq, dk, dv),
            [=, this] { inner->attentionGrad(args, dout, dq, dk, dv); });
  }
  void experts(const tpc_experts_args &args) override {
    enqueue(accessesOf(args), [=, this] { inner->experts(args); });
  }
  void exchangeRows(RoutedWork work, const RoutedRows &rows, void *tensor) override {
    enqueue({wholeOf(rows.parts), wholeOf(rows.bits), wholeOf(tensor)},
            [=] { exchangeRowsOnHost(work, rows, tensor); });
  }
  void append(const tpc_append_args &args) override {
    enqueue(accessesOf(args), [=, this] { inner->append(args); });
  }
  tpc_status endStep() override {
    run();
    inner->endStep();
    return std::exchange(status, tpc_status{});
  }

  std::unique_ptr<CollectiveBackend> makeCollectiveBackend() override {
    if (!linked)
      return nullptr;
    return makeLateBackend(
        [this](const std::vector<const void *> &used, std::function<void()> work) {
          Accesses accesses;
          for (const void *address : used)
            if (address)
              accesses.push_back(wholeOf(address));
          enqueue(std::move(accesses), std::move(work));
          // Other ranks wait for this work, and the queue does not advance while this rank waits on
          // the host.
          run();
        });
  }

private:
  struct Accessible {
    explicit Accessible(LateDevice &device) : device(device) { device.access(true); }
    ~Accessible() { device.access(false); }
    LateDevice &device;
  };

  static uint64_t seedOf(tpc_context &ctx) {
    const char *text = std::getenv("TPC_LATE_SEED");
    return (text ? std::strtoull(text, nullptr, 10) : 1) * 1000003 + ctx.rank;
  }

  struct Work {
    std::function<void()> run;
    Accesses accesses;

    bool conflictsWith(const Work &other) const {
      for (const Access &mine : accesses)
        for (const Access &theirs : other.accesses)
          if (mine.conflictsWith(theirs))
            return true;
      return false;
    }
  };

  /// Returns the memory block that contains an address.
  Access wholeOf(const void *address) const {
    auto piece = memory.upper_bound(const_cast<void *>(address));
    if (piece == memory.begin())
      return {address, 0, true};
    --piece;
    return {piece->first, static_cast<int64_t>(piece->second.size), true};
  }

  void enqueue(Accesses accesses, std::function<void()> work) {
    queue.push_back({std::move(work), std::move(accesses)});
    // Occasionally the device advances by itself.
    if (random() % 16 == 0)
      run(random() % queue.size() + 1);
  }
  void run() { run(queue.size()); }
  void run(size_t count) {
    if (count == 0)
      return;
    Accessible scope(*this);
    for (; count > 0; --count) {
      // Selects one of the first operations that depend on no earlier operation.
      std::vector<size_t> ready;
      for (size_t i = 0; i < std::min<size_t>(queue.size(), 24); ++i)
        if (std::none_of(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const Work &before) { return before.conflictsWith(queue[i]); }))
          ready.push_back(i);
      size_t next = ready[random() % ready.size()];
      overtakings += next > 0;
      Work work = std::move(queue[next]);
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(next));
      work.run();
    }
  }

  /// Runs row ranges of any size, in any order, including rows beyond the last.
  void runKernel(int32_t kernel, void *const *operands, int64_t rows) {
    std::vector<int64_t> cuts{0, rows, rows + static_cast<int64_t>(random() % 3)};
    for (uint64_t i = random() % 4; i > 0; --i)
      cuts.push_back(static_cast<int64_t>(random() % rows));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::pair<int64_t, int64_t>> pieces;
    for (size_t i = 1; i < cuts.size(); ++i)
      if (cuts[i - 1] < cuts[i])
        pieces.emplace_back(cuts[i - 1], cuts[i]);
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (auto [lo, hi] : pieces)
      program->kernels[kernel].function(env.data(), &status, operands, lo, hi);
  }

  /// Makes memory accessible; calls nest.
  void access(bool begins) {
    accessible += begins ? 1 : -1;
    if (accessible == (begins ? 1 : 0))
      for (auto &[begin, pages] : memory)
        pages.protect(begin, begins);
  }

  std::unique_ptr<Device> inner;
  std::mt19937_64 random;
  const bool linked;
  std::map<void *, Pages> memory;
  int accessible = 0;
  std::deque<Work> queue;
  std::map<const Matrix *, const void *> tables; ///< row-major copies of transposed matrices
  void *writeTo = nullptr;
  std::shared_ptr<std::vector<std::byte>> staging;
  const tpc_program *program = nullptr;
  std::vector<const void *> constants;
  std::vector<int64_t> env;
  tpc_status status = {};
};

class LateDevices : public DeviceKind {
public:
  explicit LateDevices(bool linked) : linked(linked) {}
  const char *name() const override { return "late"; }
  const char *kernels() const override { return cpuDevices().kernels(); }
  void shareKernels(const std::vector<std::string> &names) const override {
    cpuDevices().shareKernels(names);
  }
  std::string environmentProblem() const override { return cpuDevices().environmentProblem(); }
  int32_t storedType(int32_t dtype, int32_t sourceDtype) const override {
    return cpuDevices().storedType(dtype, sourceDtype);
  }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t dtype) const override {
    return cpuDevices().matrixBytes(k, n, dtype);
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    return std::make_unique<LateDevice>(ctx, linked);
  }

private:
  bool linked;
};

} // namespace

int64_t countOvertakings() { return overtakings; }

const DeviceKind &lateDevices() {
  static const LateDevices devices(/*linked=*/false);
  return devices;
}

const DeviceKind &linkedLateDevices() {
  static const LateDevices devices(/*linked=*/true);
  return devices;
}

} // namespace tpc::rt::conformance
