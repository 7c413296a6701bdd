//===- LateDevice.cpp - a device that does what it may --------------------===//

#include "LateDevice.h"
#include "core/Context.h"
#include <algorithm>
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

/// Pages of their own, with one that cannot be accessed behind them.
struct Pages {
  size_t size;

  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  void protect(void *begin, bool accessible) const {
    mprotect(begin, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
};

class LateDevice : public Device {
public:
  LateDevice(tpc_context &ctx) : inner(cpuDevices().make(ctx)), random(seedOf(ctx)) {}

  ~LateDevice() override {
    queue.clear(); // what a failed step has left
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
    later([this, begin] {
      auto it = memory.find(begin);
      munmap(begin, it->second.size + Pages::page());
      memory.erase(it);
    });
  }
  void discard(void *begin, int64_t bytes) override {
    later([=] { std::memset(begin, poison, static_cast<size_t>(bytes)); });
  }
  const void *share(const void *host, int64_t bytes) override {
    void *own = allocate(bytes);
    if (!own)
      throw std::bad_alloc();
    later([=] {
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
    later([to = writeTo, from = std::move(staging)] {
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

  void load(const tpc_program &program) override {
    if (codeOf == &program)
      return;
    codeOf = &program;
    inner->load(program);
    for (int32_t i = 0; i < program.num_constants; ++i)
      constants.push_back(share(program.constants[i].data, program.constants[i].bytes));
  }
  const void *constant(int32_t index) override { return constants[index]; }
  std::shared_ptr<Matrix> makeMatrix(int64_t k, int64_t n) override {
    return inner->makeMatrix(k, n);
  }
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const float *rows) override {
    inner->setRows(matrix, row0, row1, rows);
  }
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n) override {
    return inner->transposeOf(rows, k, n);
  }

  void beginStep(const std::vector<int64_t> &values) override {
    later([this, values] {
      env = values;
      status = {};
      inner->beginStep(values);
    });
  }
  void setEnv(int32_t place, int64_t value) override {
    later([=, this] {
      env[place] = value;
      inner->setEnv(place, value);
    });
  }
  void copy(void *to, const void *from, int64_t bytes) override {
    later([=, this] { inner->copy(to, from, bytes); });
  }
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              int64_t) override {
    later([=, this, list = std::vector<void *>(operands, operands + count)] {
      runKernel(kernel, list.data(), rows);
    });
  }
  void product(const Product &product) override {
    later([=, this] { inner->product(product); });
  }
  void batchProduct(const BatchProduct &product) override {
    later([=, this] { inner->batchProduct(product); });
  }
  void attention(const tpc_attention_args &args) override {
    later([=, this] { inner->attention(args); });
  }
  tpc_status endStep() override {
    run();
    inner->endStep();
    return std::exchange(status, tpc_status{});
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

  void later(std::function<void()> work) {
    queue.push_back(std::move(work));
    // Now and then the device gets further by itself.
    if (random() % 16 == 0)
      run(random() % queue.size() + 1);
  }
  void run() { run(queue.size()); }
  void run(size_t count) {
    if (count == 0)
      return;
    Accessible scope(*this);
    for (; count > 0; --count) {
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      work();
    }
  }

  /// Pieces of any size, from the last or from the first, and rows that are not there.
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
      codeOf->kernels[kernel].function(env.data(), &status, operands, lo, hi);
  }

  /// Counted: access within access is access.
  void access(bool begins) {
    accessible += begins ? 1 : -1;
    if (accessible == (begins ? 1 : 0))
      for (auto &[begin, pages] : memory)
        pages.protect(begin, begins);
  }

  std::unique_ptr<Device> inner;
  std::mt19937_64 random;
  std::map<void *, Pages> memory;
  int accessible = 0;
  std::deque<std::function<void()>> queue;
  void *writeTo = nullptr;
  std::shared_ptr<std::vector<std::byte>> staging;
  const tpc_program *codeOf = nullptr;
  std::vector<const void *> constants;
  std::vector<int64_t> env;
  tpc_status status = {};
};

class LateDevices : public DeviceKind {
public:
  const char *name() const override { return "late"; }
  const char *kernels() const override { return cpuDevices().kernels(); }
  std::string environmentProblem() const override { return cpuDevices().environmentProblem(); }
  int64_t matrixBytes(int64_t k, int64_t n) const override {
    return cpuDevices().matrixBytes(k, n);
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    return std::make_unique<LateDevice>(ctx);
  }
};

} // namespace

const DeviceKind &lateDevices() {
  static const LateDevices devices;
  return devices;
}

} // namespace tpc::rt::conformance
