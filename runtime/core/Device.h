//===- Device.h - Interface of a device: memory and computation -----------===//
//
// There is one object per rank, which the rank's thread uses. The ABI's entry points (Compute.cpp,
// Collectives.cpp) check arguments and handle empty tensors, so arguments are valid and tensors are
// not empty.
//
// Tensor addresses are device addresses. The host may compute with addresses, but accesses device
// memory only through the functions below.
//
// Work (the functions of "a step" below) and changes of env may be deferred and reordered, as long
// as the results equal execution in call order. A buffer may therefore be
// reused by the next call. After read(), or the end of a step, all earlier work is done. Rows of a
// launch may be split and run in any order, and rows beyond the last may also run. Lists of
// operands and arguments are read before a call returns.
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DEVICE_H
#define TPC_RT_CORE_DEVICE_H

#include "core/Arena.h"
#include "core/RoutedRows.h"
#include "core/SamplingRequest.h"
#include "tpc/runtime.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpc::rt {

class WeightLoader;
class CollectiveBackend;

/// Right operand of a matmul, [k, n], in the device's preferred layout.
class Matrix {
public:
  virtual ~Matrix();
  const int64_t k, n;
  const int32_t dtype;

protected:
  Matrix(int64_t k, int64_t n, int32_t dtype = TPC_F32) : k(k), n(n), dtype(dtype) {}
};

/// out[m, n] = epilogue(x[m, k] * matrix[k, n] + bias[n]) + residual[m, n], as defined by
/// tpc_products.
struct Product {
  const Matrix *matrix; ///< outlives the step
  const float *bias, *residual;
  float *out;
  int32_t epilogue;
  int32_t dtype = TPC_F32; ///< type of bias, residual and out: that of x, or f32
  /// Elements between rows of out and of residual, at least the matrix's n; 0: n.
  int64_t outStride = 0;
};

/// Non-empty matmuls with the same `x`. `dtype`: type of x and the matrices; pointers are untyped.
struct Products {
  const float *x;
  int64_t m, k;
  std::span<const Product> list;
  int32_t dtype = TPC_F32;
};

/// Batched matmul, as defined by tpc_batch_matmul.
struct BatchProduct {
  const float *a, *b;
  float *out;
  int64_t batch, m, k, n, aStride, bStride;
  int32_t dtype = TPC_F32;
};

/// Recorded work of a step, which the device replays without further calls.
class Recording {
public:
  virtual ~Recording();
  /// Drops the recorded work; the object may record again.
  virtual void forget() = 0;
};

class Device : public MemorySource {
public:
  ~Device() override;

  //===--- memory ---------------------------------------------------------===//

  // `release` (MemorySource) frees memory after all work enqueued before.

  /// Whether the host can access device memory at the same addresses, within an access
  /// (beginAccess).
  virtual bool isHost() const;
  /// Whether calls are complete on return, and the host can access memory at any time.
  virtual bool isSynchronous() const;
  /// Returns the memory source of frames: this device, or a source of memory that is registered for
  /// communication.
  virtual MemorySource &frames();
  /// Declares that later work does not need the contents of this memory.
  virtual void discard(void *memory, int64_t bytes);
  /// Fills memory with zeros. The tests' LateDevice fills it with NaN instead.
  virtual void clear(void *memory, int64_t bytes);
  /// Shares a host tensor with the device. The tensor must stay at its address, unchanged, until
  /// `unshare` of the returned pointer has completed all work enqueued before.
  virtual const void *share(const void *host, int64_t bytes) = 0;
  virtual void unshare(const void *shared) = 0;

  /// The host writes all `bytes` to the address that beginWrite returns; endWrite transfers them to
  /// `to`. One write at a time. Writes larger than `writeBytes` should be split.
  virtual int64_t writeBytes() const;
  virtual std::byte *beginWrite(void *to, int64_t bytes) = 0;
  virtual void endWrite() = 0;
  /// Returns the bytes at `from` for reading by the host, after all earlier work. One read at a
  /// time.
  virtual const std::byte *beginRead(const void *from, int64_t bytes) = 0;
  virtual void endRead() = 0;
  /// Within a step: passes the bytes at `from` to `take`, after all earlier work and before any
  /// later work, now or before the step ends. Each replay of the step repeats this.
  using Taker = std::function<void(const std::byte *data)>;
  /// Returns pinned host memory (`pin`) for the bytes of a delivery; null: there is none.
  using Destination = std::function<std::byte *()>;
  /// `destination` may be empty. A device may query it in each step or replay, and copy to the
  /// memory directly; `take` is then called with that memory.
  virtual void deliver(const void *from, int64_t bytes, Taker take, Destination destination = {});
  /// Pins host memory for direct copies until `unpin`. Returns false if the device cannot.
  virtual bool pin(void *host, int64_t bytes);
  virtual void unpin(void *host);
  /// Within a step: delivers the best score of each row of logits, as a 64-bit integer with the
  /// order of scores (generate/Score.h). Unused rows, and rows that return their top-scoring
  /// tokens, deliver the minimum integer; the top-scoring tokens stay on the device. Returns false,
  /// with no effect, if the device cannot sample.
  using SamplingConsumer = std::function<void(const std::byte *best, const SamplingResult &chosen)>;
  virtual bool sample(const SamplingRequest &request, SamplingConsumer take);
  /// After a step, for the scores of a SamplingResult: sets `sums` to the number of scores in each
  /// bin of distances below `largest`, then to the sum of the weights in each bin
  /// (generate/Score.h).
  virtual void sumBins(const float *scores, int64_t count, float largest, std::span<int64_t> sums);

  /// Between these calls all earlier work is done and no work is enqueued. This and other ranks of
  /// the process may read and write device memory at the addresses that `map` returns. Transports
  /// over host memory need this.
  virtual void beginAccess() = 0;
  virtual void endAccess() = 0;
  enum class Use { Read, Write, ReadWrite };
  /// Within an access: returns the host address of `bytes` of device memory. Data written there
  /// (Write: all of it) is on the device after the access.
  virtual void *map(void *data, int64_t bytes, Use use);

  //===--- persistent state -----------------------------------------------===//

  /// Loads the kernels of `program`, which must outlive the device.
  virtual void load(const tpc_program &program) = 0;
  /// Whether matmuls and attention support this element type.
  virtual bool computes(int32_t dtype) const;
  /// Returns a constant of the program in device memory.
  virtual const void *constant(int32_t index) = 0;
  /// Makes matrices of k rows that are right operands of one matmul call, packed side by side.
  /// Their rows are then set in chunks, so that no complete dense copy exists. Throws
  /// std::bad_alloc.
  virtual std::vector<std::shared_ptr<Matrix>>
  makeMatrices(int64_t k, std::span<const int64_t> widths, int32_t dtype) = 0;
  std::shared_ptr<Matrix> makeMatrix(int64_t k, int64_t n, int32_t dtype = TPC_F32) {
    return makeMatrices(k, {&n, 1}, dtype)[0];
  }
  /// Sets rows [row0, row1) of the matrix from dense rows in host memory.
  virtual void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) = 0;
  /// Makes a loader that uploads weights in file format. No other work is enqueued during its
  /// lifetime. Null: the host uploads.
  virtual std::unique_ptr<WeightLoader> makeWeightLoader();
  /// Makes the transpose of a dense [n, k] in device memory. That memory must outlive the result.
  virtual std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                              int32_t dtype) = 0;
  /// Reorders dense matrices [experts, n, k] in device memory, in place, for `experts` to read.
  /// Returns false, with no effect, if the device reads them dense.
  virtual bool packExperts(void *matrices, int64_t experts, int64_t n, int64_t k, int32_t dtype);

  //===--- a step ---------------------------------------------------------===//

  /// Sets the env of kernels.
  virtual void beginStep(const std::vector<int64_t> &env) = 0;
  virtual void setEnv(int32_t index, int64_t value) = 0;
  virtual void copy(void *to, const void *from, int64_t bytes) = 0;
  /// Copies `count` byte ranges; each stride is at least the size of a range.
  struct Rows {
    void *to;
    const void *from;
    int64_t toStride, fromStride, bytes, count;
  };
  virtual void copyRows(const Rows &rows);
  /// Adds `count` f32 elements to those at `sum`, which do not overlap them. Returns false, having
  /// done nothing, if the host must add them.
  virtual bool accumulate(float *sum, const float *from, int64_t count);
  virtual void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
                      int64_t grain) = 0;
  virtual void multiply(const Products &products) = 0;
  /// Computes `products` with a norm and an activation, as defined by tpc_fused_products. Returns
  /// false, having computed nothing, if the caller must compute them one by one.
  virtual bool multiplyFused(const Products &products, const tpc_fusion &fusion);
  virtual void batchProduct(const BatchProduct &product) = 0;
  /// Computes tpc_quantized_product. Only programs for CPUs call it.
  virtual void quantizedProduct(const tpc_quantized_args &args);
  virtual void attention(const tpc_attention_args &args) = 0;
  /// Computes tpc_attention_grad. Only programs for CPUs call it.
  virtual void attentionGrad(const tpc_attention_args &args, const float *dout, float *dq,
                             float *dk, float *dv);
  virtual void experts(const tpc_experts_args &args) = 0;
  /// Computes a part of tpc_dispatch and tpc_combine (core/RoutedRows.h). Devices whose collective
  /// backend has no host implement it. `tensor`: null for RoutedWork::Locate.
  virtual void exchangeRows(RoutedWork work, const RoutedRows &rows, void *tensor);
  virtual void append(const tpc_append_args &args) = 0;
  /// Waits for all work. Returns the errors that kernels reported, and resets them.
  virtual tpc_status endStep() = 0;

  //===--- tuning ---------------------------------------------------------===//
  //
  // A device may select an algorithm by measurement. If each rank selected its own, their bits
  // would differ. Between steps, one of the ranks with a pending tuning therefore measures it for
  // all of them. Tunings and results are single-line strings; equal tunings share one result.

  /// Returns the tunings that the enqueued work needs and that have no result yet. Called on
  /// dry-run devices too.
  virtual std::vector<std::string> pendingTunings();
  /// Returns the bytes of device memory that measuring a pending tuning needs: the size of `memory`
  /// of `tune`.
  virtual int64_t tuningBytes(const std::string &tuningKey);
  virtual std::string tune(const std::string &tuningKey, void *memory);
  /// Applies a tuning result. Returns false if the result is invalid for this device.
  virtual bool applyTuning(const std::string &tuningKey, const std::string &tuning);

  //===--- recording and replay -------------------------------------------===//
  //
  // A device may replay all work of a step whose calls are the same: the same env, addresses and
  // sizes. The contents at these addresses may differ. core/Step.h decides which steps are
  // replayed.

  virtual bool canRecord() const;
  /// After a step: makes a recording with all resources to record an equal step, so that recording
  /// and replay allocate nothing. Null: the host took part in the step.
  virtual std::unique_ptr<Recording> prepareRecording();
  /// Within a step: work between begin and end is recorded and does not run until the first replay.
  /// On an error, `abandonRecording` ends it.
  virtual void beginRecording(Recording &recording);
  virtual void endRecording(Recording &recording);
  virtual void abandonRecording();
  /// Within a step: enqueues all recorded work.
  virtual void replay(Recording &recording);
  /// After a replayed step: whether replayAhead may enqueue the recording. Its inputs must have
  /// advanced (SamplingRequest::advanced).
  virtual bool canReplayAhead(const Recording &recording) const;
  /// Enqueues the recorded work once more as a further step, without waiting. At most
  /// `maxStepsAhead` such steps are in flight. The next beginStep drops them.
  virtual void replayAhead(Recording &recording);
  /// Waits for the earliest of these steps, delivers its results, and returns its errors.
  virtual tpc_status takeAhead();
  /// Waits for all of these steps. Their results are not delivered.
  virtual void dropAhead();
  static constexpr int64_t maxStepsAhead = 64;
  /// A number that changes whenever memory is freed that recordings may refer to.
  virtual uint64_t memoryVersion() const;

  // Any thread may call the following functions.

  /// Describes the device's incomplete work; empty if the rank waits, but not for known work. Null:
  /// no work is incomplete, and the rank does not wait.
  virtual std::optional<std::string> pending() const;
  /// A number that changes whenever work is enqueued or completed.
  virtual uint64_t workVersion() const;

  /// Makes the collective backend of ranks whose devices communicate without the host. Null:
  /// communication passes through the host. The same on all ranks; called once, before the first
  /// run.
  virtual std::unique_ptr<CollectiveBackend> makeCollectiveBackend();
};

/// Host view of a range of device memory, valid during its lifetime.
class Reading {
public:
  Reading(Device &device, const void *from, int64_t bytes)
      : device(device), data(device.beginRead(from, bytes)) {}
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;
  ~Reading() { device.endRead(); }

private:
  Device &device;

public:
  const std::byte *const data;
};

/// Device memory that its destructor frees.
class DeviceMemory {
public:
  /// Throws std::bad_alloc.
  DeviceMemory(Device &device, int64_t bytes) : device(&device), memory(device.allocate(bytes)) {
    if (!memory)
      throw std::bad_alloc();
  }
  DeviceMemory(DeviceMemory &&other) : device(other.device), memory(other.memory) {
    other.memory = nullptr;
  }
  DeviceMemory &operator=(DeviceMemory &&) = delete;
  ~DeviceMemory() {
    if (memory)
      device->release(memory);
  }
  void *data() const { return memory; }

private:
  Device *device;
  void *memory;
};

/// Device memory in bytes, now and at the peak since the last reset. Allocated memory exceeds
/// requested memory, because drivers round up to pages.
struct MemoryUse {
  int64_t now = 0, peak = 0;
  int64_t requested = 0, peakRequested = 0;
};

/// Device of a rank.
struct DeviceAssignment {
  std::string id; ///< unique over all hosts; empty: CPU
  std::string name;
};

/// Distribution of this host's ranks over its devices.
struct Placement {
  bool threads = true; ///< all ranks are threads of this process
  int first = 0;       ///< first rank of this process, among the host's ranks
  int onHost = 1;      ///< ranks on this host
  bool share = false;  ///< several ranks may share one device
};

/// Kind of device, such as CPU or CUDA.
class DeviceKind {
public:
  virtual ~DeviceKind();
  virtual const char *name() const = 0;
  /// Name of the selected kernel set, such as "avx2".
  virtual const char *kernels() const = 0;
  /// Restricts this process to kernels that processes with each of `names` (see kernels()) can run,
  /// so that results have the same bits on all of them. Call before the first device is made.
  virtual void shareKernels(const std::vector<std::string> &names) const;
  /// Returns the backend of f32 matmuls with weights: "tpc", or a library with its version.
  virtual std::string products() const;
  /// Returns the same kind of device with matmuls by backend `name`. Null, with the reason in
  /// `problem`, if the backend is not available.
  virtual const DeviceKind *withProducts(const std::string &name, std::string &problem) const;
  /// Current communication backend: "the host", or a library with its version.
  virtual std::string communication() const;
  /// Error in an environment variable that configures this kind, or empty.
  virtual std::string environmentProblem() const;
  /// Assigns devices to ranks, before the first device is made. Returns the error if a rank cannot
  /// have one, or an empty string.
  virtual std::string assign(const Placement &placement) const;
  /// After `assign`: the device of a rank of this process.
  virtual DeviceAssignment assignmentOf(int rank) const;
  /// After `assign`: sets whether ranks anywhere in the world share a device. Returns a note to
  /// print once.
  virtual std::string setSharing(bool shared) const;
  /// Enables or disables tuning by measurement, before the first device is made. Default: enabled.
  virtual void enableTuning(bool enabled) const;
  /// Returns the result of a pending tuning from the tables that are installed with tpc; nullopt if
  /// they have none.
  virtual std::optional<std::string> installedTuning(const std::string &tuningKey) const;
  /// Returns and removes the notes for the user that devices of this process have added since the
  /// last call.
  virtual std::vector<std::string> takeNotes() const;
  /// After `assign`: free bytes of the device's memory. Throws. May keep resources for the device
  /// that `make` returns; if none is made, `releaseUnused` releases them.
  virtual int64_t freeBytes(int rank) const;
  virtual void releaseUnused() const;
  /// Returns a dry-run version of the selected kind, which does no work and counts the memory of
  /// its thread's devices. Null: not supported, as on CPUs, where an estimate before each new step
  /// takes too long.
  virtual const DeviceKind *dryRun() const;
  /// Memory counted by a dry-run kind.
  virtual MemoryUse &use() const;
  /// Returns the type of the elements of a matrix for matmuls of `dtype`, whose weights are of
  /// `sourceDtype` in the file. `makeMatrices` and `setRows` then take this type.
  virtual int32_t storedType(int32_t dtype, int32_t sourceDtype) const;
  /// Bytes of a matrix whose elements are of type `stored`.
  virtual int64_t matrixBytes(int64_t k, int64_t n, int32_t stored) const = 0;
  virtual std::unique_ptr<Device> make(tpc_context &ctx) const = 0;
};

/// CPU devices (cpu/).
const DeviceKind &cpuDevices();
/// NVIDIA GPUs (cuda/). Null, with the reason in `problem`, if their library is not found.
const DeviceKind *cudaDevices(std::string &problem);
/// Device kind that the program's kernels are compiled for; for CPU kernels, the selected kind.
const DeviceKind *devicesOf(const tpc_program &program, std::string &problem);

/// Device kind of ranks of this process: CPU, unless another one was selected before the first
/// world was made.
const DeviceKind &deviceKind();
void selectDevices(const DeviceKind &kind);
/// Selects another kind for ranks that the calling thread makes; null: none. Returns the previous
/// one. Other threads may make ranks of another model meanwhile.
const DeviceKind *selectDevicesOfThread(const DeviceKind *kind);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DEVICE_H
