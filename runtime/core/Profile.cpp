//===- Profile.cpp - Time profile of a step -------------------------------===//

#include "core/Profile.h"
#include "core/CollectiveBackend.h"
#include "core/Context.h"
#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <map>
#include <utility>

namespace tpc::rt {
namespace {

std::string sizes(std::initializer_list<int64_t> values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : "x") + std::to_string(value);
  return text;
}

class ProfiledDevice : public Device {
  using Clock = std::chrono::steady_clock;

public:
  ProfiledDevice(std::unique_ptr<Device> device, tpc_context &ctx)
      : device(std::move(device)), ctx(ctx) {}

  std::vector<TimedCall> takeCalls() { return std::exchange(calls, {}); }

  std::vector<ProfileRow> take() {
    std::vector<ProfileRow> result;
    for (auto &[key, row] : rows)
      result.push_back(std::move(row));
    rows.clear();
    std::stable_sort(result.begin(), result.end(), [](const ProfileRow &a, const ProfileRow &b) {
      return a.seconds > b.seconds;
    });
    return result;
  }

  bool isHost() const override { return device->isHost(); }
  bool isSynchronous() const override { return device->isSynchronous(); }
  void *allocate(int64_t bytes) override { return device->allocate(bytes); }
  void release(void *memory) override { device->release(memory); }
  MemorySource &frames() override { return device->frames(); }
  void discard(void *memory, int64_t bytes) override { device->discard(memory, bytes); }
  void clear(void *memory, int64_t bytes) override { device->clear(memory, bytes); }
  const void *share(const void *host, int64_t bytes) override { return device->share(host, bytes); }
  void unshare(const void *shared) override { device->unshare(shared); }
  int64_t writeBytes() const override { return device->writeBytes(); }
  std::byte *beginWrite(void *to, int64_t bytes) override { return device->beginWrite(to, bytes); }
  void endWrite() override { device->endWrite(); }
  const std::byte *beginRead(const void *from, int64_t bytes) override {
    return device->beginRead(from, bytes);
  }
  void endRead() override { device->endRead(); }
  void beginAccess() override {
    accessBegin = Clock::now();
    operation = {};
    isMapped = false;
    device->beginAccess();
  }
  void endAccess() override {
    device->endAccess();
    // An access without memory is the wait for an asynchronous operation, which has ended now.
    if (!isMapped) {
      operation = ctx.activity.read();
      operation.what = operation.last;
    }
    // Moves within a rank are no operation.
    if (operation.what)
      record(operation.what, ctx.grid.label(operation.axes), accessBegin);
  }
  void *map(void *data, int64_t bytes, Use use) override {
    operation = ctx.activity.read();
    isMapped = true;
    return device->map(data, bytes, use);
  }

  void load(const tpc_program &program) override {
    kernels = program.kernels;
    device->load(program);
  }
  const void *constant(int32_t index) override { return device->constant(index); }
  bool computes(int32_t dtype) const override { return device->computes(dtype); }
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override {
    return device->makeMatrices(k, widths, dtype);
  }
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *data) override {
    device->setRows(matrix, row0, row1, data);
  }
  std::shared_ptr<Matrix> transposeOf(const void *data, int64_t k, int64_t n,
                                      int32_t dtype) override {
    return device->transposeOf(data, k, n, dtype);
  }
  bool packExperts(void *matrices, int64_t experts, int64_t n, int64_t k, int32_t dtype) override {
    return device->packExperts(matrices, experts, n, k, dtype);
  }

  std::vector<std::string> pendingTunings() override { return device->pendingTunings(); }
  int64_t tuningBytes(const std::string &tuningKey) override {
    return device->tuningBytes(tuningKey);
  }
  std::string tune(const std::string &tuningKey, void *memory) override {
    return device->tune(tuningKey, memory);
  }
  bool applyTuning(const std::string &tuningKey, const std::string &tuning) override {
    return device->applyTuning(tuningKey, tuning);
  }

  void beginStep(const std::vector<int64_t> &env) override { device->beginStep(env); }
  void setEnv(int32_t index, int64_t value) override { device->setEnv(index, value); }
  tpc_status endStep() override { return device->endStep(); }
  std::unique_ptr<CollectiveBackend> makeCollectiveBackend() override {
    return device->makeCollectiveBackend();
  }
  std::optional<std::string> pending() const override { return device->pending(); }
  uint64_t workVersion() const override { return device->workVersion(); }

  void copy(void *to, const void *from, int64_t bytes) override {
    timed("copy", "", 0, [&] { device->copy(to, from, bytes); });
  }
  void copyRows(const Rows &rows) override {
    timed("copy", "", 0, [&] { device->copyRows(rows); });
  }
  bool accumulate(float *sum, const float *from, int64_t count) override {
    auto begin = Clock::now();
    if (!device->accumulate(sum, from, count))
      return false;
    timed("kernel", "tpc_accumulate", 0, [] {}, begin);
    return true;
  }
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t launched,
              int64_t grain) override {
    timed("kernel", kernels[kernel].name, 0,
          [&] { device->launch(kernel, operands, count, launched, grain); });
  }
  void multiply(const Products &p) override {
    timed("product", describe(p), flopsOf(p), [&] { device->multiply(p); });
  }
  bool multiplyFused(const Products &p, const tpc_fusion &fusion) override {
    auto begin = Clock::now();
    if (!device->multiplyFused(p, fusion))
      return false;
    timed("fused product", describe(p), flopsOf(p), [] {}, begin);
    return true;
  }
  void batchProduct(const BatchProduct &p) override {
    timed("batch_product", sizes({p.batch, p.m, p.k, p.n}),
          static_cast<double>(p.batch) * flops(p.m, p.k, p.n), [&] { device->batchProduct(p); });
  }
  void quantizedProduct(const tpc_quantized_args &a) override {
    timed("product", sizes({a.m, a.k, a.n}) + " of " + std::to_string(a.bits) + " bits",
          flops(a.m, a.k, a.n), [&] { device->quantizedProduct(a); });
  }
  void attention(const tpc_attention_args &a) override {
    timed("attention", sizes({a.batch, a.heads_q, a.seq_q, a.seq_k, a.head_size}),
          static_cast<double>(a.batch * a.heads_q) *
              flops(a.seq_q, a.head_size + a.value_size, a.seq_k),
          [&] { device->attention(a); });
  }
  void attentionGrad(const tpc_attention_args &a, const float *dout, float *dq, float *dk,
                     float *dv) override {
    // Three matmuls over head_size, for scores, dq and dk, and two over value_size.
    timed("attention_grad", sizes({a.batch, a.heads_q, a.seq_q, a.seq_k, a.head_size}),
          static_cast<double>(a.batch * a.heads_q) *
              flops(a.seq_q, 3 * a.head_size + 2 * a.value_size, a.seq_k),
          [&] { device->attentionGrad(a, dout, dq, dk, dv); });
  }
  void experts(const tpc_experts_args &a) override {
    timed("experts", sizes({a.tokens, a.hidden, a.experts, a.inner, a.outputs}), 0,
          [&] { device->experts(a); });
  }
  void exchangeRows(RoutedWork work, const RoutedRows &exchanged, void *tensor) override {
    constexpr const char *names[] = {"select rows", "locate rows", "pack rows", "unpack rows"};
    timed(names[static_cast<int>(work)],
          sizes({exchanged.numParts, exchanged.maxRows, exchanged.width}), 0,
          [&] { device->exchangeRows(work, exchanged, tensor); });
  }
  void append(const tpc_append_args &a) override {
    timed("append", sizes({a.batch, a.heads, a.sequence, a.capacity, a.size}), 0,
          [&] { device->append(a); });
  }

private:
  static double flops(int64_t m, int64_t k, int64_t n) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  }

  /// Describes matmuls with the same left operand [m, k]: "MxKxN1+N2+…".
  static std::string describe(const Products &p) {
    std::string what = sizes({p.m, p.k});
    for (size_t i = 0; i < p.list.size(); ++i)
      what += (i ? "+" : "x") + std::to_string(p.list[i].matrix->n);
    return what;
  }
  static double flopsOf(const Products &p) {
    int64_t columns = 0;
    for (const Product &product : p.list)
      columns += product.matrix->n;
    return flops(p.m, p.k, columns);
  }
  template <typename Work>
  void timed(const char *kind, std::string what, double flops, const Work &work,
             Clock::time_point begin = Clock::now()) {
    work();
    // A read completes all earlier work.
    device->beginRead(nullptr, 0);
    device->endRead();
    ProfileRow &row = rows[{kind, what}];
    row.kind = kind;
    row.what = what;
    row.count += 1;
    row.seconds += record(kind, std::move(what), begin);
    row.flops += flops;
  }
  /// Appends a call that ends now. Returns its seconds.
  double record(const char *kind, std::string what, Clock::time_point begin) {
    using Seconds = std::chrono::duration<double>;
    double seconds = Seconds(Clock::now() - begin).count();
    if (calls.size() < maxCalls)
      calls.push_back({kind, std::move(what), Seconds(begin.time_since_epoch()).count(), seconds});
    return seconds;
  }

  /// Maximum number of recorded calls.
  static constexpr size_t maxCalls = 1 << 20;

  std::unique_ptr<Device> device;
  tpc_context &ctx;
  std::vector<TimedCall> calls;
  Clock::time_point accessBegin;
  CurrentOperation::Snapshot operation; ///< in the current access
  bool isMapped = false;                ///< whether the current access has memory
  const tpc_kernel *kernels = nullptr;
  std::map<std::pair<std::string, std::string>, ProfileRow> rows;
};

class ProfiledDevices : public DeviceKind {
public:
  explicit ProfiledDevices(const DeviceKind &kind) : kind(kind) {}
  const char *name() const override { return kind.name(); }
  const char *kernels() const override { return kind.kernels(); }
  void shareKernels(const std::vector<std::string> &names) const override {
    kind.shareKernels(names);
  }
  std::string products() const override { return kind.products(); }
  std::string communication() const override { return kind.communication(); }
  std::string environmentProblem() const override { return kind.environmentProblem(); }
  std::vector<std::string> takeNotes() const override { return kind.takeNotes(); }
  void releaseUnused() const override { kind.releaseUnused(); }
  const DeviceKind *dryRun() const override { return kind.dryRun(); }
  int32_t storedType(int32_t dtype, int32_t sourceDtype) const override {
    return kind.storedType(dtype, sourceDtype);
  }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t dtype) const override {
    return kind.matrixBytes(k, n, dtype);
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    return std::make_unique<ProfiledDevice>(kind.make(ctx), ctx);
  }

private:
  const DeviceKind &kind;
};

} // namespace

std::unique_ptr<DeviceKind> profiledDevices(const DeviceKind &kind) {
  return std::make_unique<ProfiledDevices>(kind);
}

std::vector<ProfileRow> takeProfile(Device &device) {
  auto *profiled = dynamic_cast<ProfiledDevice *>(&device);
  return profiled ? profiled->take() : std::vector<ProfileRow>();
}

std::vector<TimedCall> takeTimeline(Device &device) {
  auto *profiled = dynamic_cast<ProfiledDevice *>(&device);
  return profiled ? profiled->takeCalls() : std::vector<TimedCall>();
}

} // namespace tpc::rt
