//===- Device.h - where tensors are, and what computes on them ------------===//
//
// One object per rank, used by the rank's thread. The entry points of the ABI (Compute.cpp,
// Collectives.cpp) check arguments and settle what is empty; what arrives here has something to do.
//
// Addresses of tensors are the device's. Nobody else reads or writes what is there, but as said
// below; they may be added to. Work (copy, launch, multiply, batchProduct, attention, append) and
// changes of env may be done later than they are called for, and in any order in which each sees
// what it would see if all were done at once in the order of the calls: so what is named once may
// be reused for what comes next. Whoever has read() something, or ended a step, knows that all
// before is done. Rows of a launch may be divided and run in any order, and rows beyond the last
// may be run as well. Lists of operands and arguments are read before a call returns.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_DEVICE_H
#define TPC_RT_CORE_DEVICE_H

#include "core/Arena.h"
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

/// The right side of a product, [k, n], in the layout that the device likes.
class Matrix {
public:
  virtual ~Matrix();
  const int64_t k, n;
  const int32_t dtype;

protected:
  Matrix(int64_t k, int64_t n, int32_t dtype = TPC_F32) : k(k), n(n), dtype(dtype) {}
};

/// out[m, n] = epilogue(x[m, k] * matrix[k, n] + bias[n]) + residual[m, n], as tpc_products says.
struct Product {
  const Matrix *matrix; ///< outlives the step
  const float *bias, *residual;
  float *out;
  int32_t epilogue;
  int32_t dtype = TPC_F32; ///< of bias, residual and out: that of x, or f32
};

/// Those of one x, none of which is empty. `dtype`: of x and matrices, whatever pointers say.
struct Products {
  const float *x;
  int64_t m, k;
  std::span<const Product> list;
  int32_t dtype = TPC_F32;
};

/// As tpc_batch_matmul says.
struct BatchProduct {
  const float *a, *b;
  float *out;
  int64_t batch, m, k, n, aStride, bStride;
  int32_t dtype = TPC_F32;
};

/// All work of a step, for a device to do again without being told call by call.
class Recording {
public:
  virtual ~Recording();
  /// Nothing is recorded any more; it may be recorded again.
  virtual void forget() = 0;
};

class Device : public MemorySource {
public:
  ~Device() override;

  //===--- memory ---------------------------------------------------------===//

  /// Of MemorySource: memory is released after the work that was called for before.
  /// Whether the host has the device's memory, within accesses, at its own addresses.
  virtual bool isHosts() const;
  /// Where the memory of frames comes from, of which ranks communicate: this, or something better.
  virtual MemorySource &frames();
  /// What is there is not needed by work that is called for after this.
  virtual void discard(void *memory, int64_t bytes);
  /// It is zeros from now on, or, of a device that looks for mistakes, what nobody may read.
  virtual void clear(void *memory, int64_t bytes);
  /// A tensor of the host for work to read: it stays where it is, unchanged, until `unshare` of
  /// what this returns has done all work that was called for before.
  virtual const void *share(const void *host, int64_t bytes) = 0;
  virtual void unshare(const void *shared) = 0;

  /// The host writes all `bytes` to the address that begin returns; after end they are at `to`. One
  /// at a time. What is larger than `writeBytes` is better written in pieces.
  virtual int64_t writeBytes() const;
  virtual std::byte *beginWrite(void *to, int64_t bytes) = 0;
  virtual void endWrite() = 0;
  /// The host reads what is at `from`, all work before done. One at a time.
  virtual const std::byte *beginRead(const void *from, int64_t bytes) = 0;
  virtual void endRead() = 0;
  /// Within a step: `take` gets what is at `from`, all work before done and none that follows, now
  /// or until the step ends; and again in each step that is replayed.
  using Taker = std::function<void(const std::byte *data)>;
  virtual void deliver(const void *from, int64_t bytes, Taker take);
  /// Within a step: delivers of each row of logits the best, as an integer of 64 bits that has the
  /// order of scores (generate/Score.h); the least there is of rows that are not wanted, or show
  /// their largest tokens, which stay with the device. False, and nothing is done: somebody else
  /// has to choose.
  using ChoiceTaker = std::function<void(const std::byte *best, const SamplingResult &chosen)>;
  virtual bool choose(const SamplingRequest &choice, ChoiceTaker take);
  /// Behind a step, of scores that it has kept (SamplingResult): how many are in which bin below
  /// `largest`, then the sums of their weights (generate/Score.h).
  virtual void sumBins(const float *scores, int64_t count, float largest, std::span<int64_t> sums);

  /// Between these, all work before done, this and other ranks of the process may read and write
  /// the device's memory where `map` has it for them, and no work is called for: what transports
  /// over host memory need.
  virtual void beginAccess() = 0;
  virtual void endAccess() = 0;
  enum class Use { Read, Write, ReadWrite };
  /// Within an access: where the host finds `bytes` of the device's memory. What is written there
  /// (Write: all of it) is the device's after the access.
  virtual void *map(void *data, int64_t bytes, Use use);

  //===--- what stays from step to step ----------------------------------===//

  /// Kernels are those of this program from now on, which outlives the device.
  virtual void load(const tpc_program &program) = 0;
  /// Whether products and attention are there for these elements.
  virtual bool computes(int32_t dtype) const;
  /// A constant of the program, as it is in the device's memory.
  virtual const void *constant(int32_t index) = 0;
  /// Matrices of k rows that products multiply by in one go: one weight, packed side by side. Their
  /// rows then are handed over in pieces, so that a dense copy of the whole never exists. Throws
  /// std::bad_alloc.
  virtual std::vector<std::shared_ptr<Matrix>>
  makeMatrices(int64_t k, std::span<const int64_t> widths, int32_t dtype) = 0;
  std::shared_ptr<Matrix> makeMatrix(int64_t k, int64_t n, int32_t dtype = TPC_F32) {
    return makeMatrices(k, {&n, 1}, dtype)[0];
  }
  /// Rows [row0, row1), dense, of the matrix's elements, from the host's memory.
  virtual void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) = 0;
  /// What fills memory of this device with weights as files have them, for as long as that lives;
  /// nothing else is called for meanwhile that works. Null: the host does.
  virtual std::unique_ptr<WeightLoader> makeWeightLoader();
  /// The transpose of a dense [n, k] in the device's memory, which outlives it.
  virtual std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                              int32_t dtype) = 0;

  //===--- a step ---------------------------------------------------------===//

  /// What kernels see from now on.
  virtual void beginStep(const std::vector<int64_t> &env) = 0;
  virtual void setEnv(int32_t place, int64_t value) = 0;
  virtual void copy(void *to, const void *from, int64_t bytes) = 0;
  /// So many pieces of bytes, with distances from one to the next that are no less.
  struct Rows {
    void *to;
    const void *from;
    int64_t toStride, fromStride, bytes, count;
  };
  virtual void copyRows(const Rows &rows);
  virtual void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
                      int64_t grain) = 0;
  virtual void multiply(const Products &products) = 0;
  virtual void batchProduct(const BatchProduct &product) = 0;
  virtual void attention(const tpc_attention_args &args) = 0;
  virtual void append(const tpc_append_args &args) = 0;
  /// All is done. What kernels have met, which is forgotten.
  virtual tpc_status endStep() = 0;

  //===--- what is chosen by measuring ------------------------------------===//
  //
  // A device may choose by measuring how it does some work. Ranks that did so each for itself would
  // compute different bits: between steps, one of those that have a question answers it for all of
  // them. Both are texts of one line; equal pendingTunings have one answer.

  /// Those that the work which was called for leaves open: of a device that only counts.
  virtual std::vector<std::string> pendingTunings();
  /// Bytes of its memory that it takes to answer one of its pendingTunings, as `memory` of
  /// `answer`.
  virtual int64_t bytesToAnswer(const std::string &question);
  virtual std::string answer(const std::string &question, void *memory);
  /// Work is done so from now on. False: that is no answer to it here.
  virtual bool applyTuning(const std::string &question, const std::string &answer);

  //===--- steps that are replayed ----------------------------------------===//
  //
  // A device may do all work of a step again, if it is called for in the same way: with the same
  // env, the same addresses and sizes. What is at these addresses may be different. core/Step.h
  // says which steps are.

  virtual bool canRecord() const;
  /// Behind a step, with what it takes to record one like it: recording and replaying allocate
  /// nothing. Null: the host had to take part in it.
  virtual std::unique_ptr<Recording> prepareRecording();
  /// Within a step, what is called for between these is recorded and not done, until the first
  /// replay. If something goes wrong, `abandonRecording` ends it.
  virtual void beginRecording(Recording &recording);
  virtual void endRecording(Recording &recording);
  virtual void abandonRecording();
  /// Within a step: as if all were called for now.
  virtual void replay(Recording &recording);
  /// Another number whenever memory has gone that recordings may have addresses of.
  virtual uint64_t memoryMoves() const;

  // What follows may be asked by any thread.

  /// Of work that was called for, what is not done, as far as it is known, or empty: it is waited
  /// for, or in a library for other ranks. Null: neither.
  virtual std::optional<std::string> pending() const;
  /// Another number whenever something is called for, or has been waited for.
  virtual uint64_t workMoves() const;

  /// What ranks' devices communicate by, if they do so without the host. Null: they do not. The
  /// same on all ranks, and asked once, before the first run.
  virtual std::unique_ptr<CollectiveBackend> makeCollectiveBackend();
};

/// A piece of the device's memory as the host sees it, for as long as this lives.
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

/// Memory of a device that is given back.
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

/// Bytes of devices' memory: held, and asked for (drivers give pages); now, and at most since
/// somebody made that what it is now.
struct MemoryUse {
  int64_t now = 0, most = 0;
  int64_t asked = 0, mostAsked = 0;
};

/// A device that a rank has.
struct DeviceAssignment {
  std::string id; ///< of no other device of any host; empty: processors
  std::string name;
};

/// How ranks of this host are spread over its devices.
struct Placement {
  bool threads = true; ///< all ranks are threads of this process
  int first = 0;       ///< of this process, among the host's ranks
  int onHost = 1;      ///< ranks on this host
  bool share = false;  ///< several of them may have one device
};

/// A kind of device, before a rank has one.
class DeviceKind {
public:
  virtual ~DeviceKind();
  virtual const char *name() const = 0;
  /// Which of its library's kernels it runs, such as "avx2".
  virtual const char *kernels() const = 0;
  /// Restricts this process to kernels that processes with each of `names` (see kernels()) can run.
  /// Results then have the same bits on all of them. Before the first device is made.
  virtual void shareKernels(const std::vector<std::string> &names) const;
  /// What computes products of f32 with weights: "tpc", or a library with its version.
  virtual std::string products() const;
  /// The same kind of device, whose products `name` computes. Null, with the reason, if there is no
  /// such thing here.
  virtual const DeviceKind *withProducts(const std::string &name, std::string &problem) const;
  /// What ranks communicate by, as it is now: "the host", or a library with its version.
  virtual std::string communication() const;
  /// What is wrong with variables of the environment that are for it. Empty: nothing.
  virtual std::string environmentProblem() const;
  /// Before the first is made. Empty, or why ranks of this process cannot all have one.
  virtual std::string place(const Placement &placement) const;
  /// After that: the one that a rank of this process has.
  virtual DeviceAssignment assignmentOf(int rank) const;
  /// After that: whether ranks of the world, anywhere, have one in common. What is to be said once.
  virtual std::string settle(bool shared) const;
  /// Before the first is made: whether they choose by measuring; without this, they do.
  virtual void chooseByMeasuring(bool does) const;
  /// After that: bytes of its memory that nobody has. Throws.
  virtual int64_t freeBytes(int rank) const;
  /// The same kind of device as settled, without memory behind it: nothing is done, and what would
  /// be held is counted, for devices of the thread that made them. Null: it is not counted.
  virtual const DeviceKind *counted() const;
  /// Of one of those: its count.
  virtual MemoryUse &use() const;
  /// Bytes that a matrix takes.
  virtual int64_t matrixBytes(int64_t k, int64_t n, int32_t dtype) const = 0;
  virtual std::unique_ptr<Device> make(tpc_context &ctx) const = 0;
};

/// Processors: cpu/.
const DeviceKind &cpuDevices();
/// NVIDIA's GPUs: cuda/. Null, with the reason, if there is no library for them.
const DeviceKind *cudaDevices(std::string &problem);
/// Those that the program's kernels are for; for processors, what has been chosen.
const DeviceKind *devicesOf(const tpc_program &program, std::string &problem);

/// What ranks of this process compute on: processors, unless something else has been chosen before
/// the first world was made.
const DeviceKind &deviceKind();
void chooseDevices(const DeviceKind &kind);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DEVICE_H
