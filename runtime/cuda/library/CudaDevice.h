//===- CudaDevice.h - CUDA device -----------------------------------------===//
//
// All work runs on one stream in program order, except messages between pipeline stages
// (Transfers.h). The host runs ahead of the stream until the step ends or until a tensor passes
// through host memory. Steps are recorded as CUDA graphs (CudaStep.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDADEVICE_H
#define TPC_RT_CUDA_LIBRARY_CUDADEVICE_H

#include "core/Device.h"
#include "cuda/library/Attention.h"
#include "cuda/library/Block.h"
#include "cuda/library/ExpertKernels.h"
#include "cuda/library/GemvKernels.h"
#include "cuda/library/Kernels.h"
#include "cuda/library/LibraryKernels.h"
#include "cuda/library/Matmuls.h"
#include "cuda/library/NcclMemory.h"
#include "cuda/library/Pinned.h"
#include "cuda/library/Queue.h"
#include "cuda/library/RoutedKernels.h"
#include "cuda/library/StepResults.h"
#include "cuda/library/Transfers.h"
#include <exception>
#include <list>

namespace tpc::rt::cuda {

/// A recorded step, or the resources to record one.
class CudaRecording final : public Recording {
public:
  explicit CudaRecording(const Queue &queue) : driver(queue.driver), context(queue.context) {}
  /// Any thread may destroy the recording.
  ~CudaRecording() override {
    driver.cuCtxSetCurrent(context);
    forget();
  }
  void forget() override {
    if (exec)
      driver.cuGraphExecDestroy(std::exchange(exec, nullptr));
    deliveries.clear();
    results.clear();
  }

  const Driver &driver;
  const Context context;
  GraphExec exec = nullptr;
  std::unique_ptr<Block> attentionArgs;
  /// An output for the host: its pinned memory and the function that consumes it.
  struct Delivery {
    const std::byte *data;
    Device::Taker take;
  };
  std::vector<Delivery> deliveries;
  std::vector<StepResult> results; ///< copied after each launch
  uint64_t operations = 0;         ///< number of collective operations
  std::shared_ptr<const InFlightOperations::Calls> calls;
};

/// Pinned memory for an arena.
class PinnedMemory final : public MemorySource {
public:
  explicit PinnedMemory(const Driver &driver) : driver(driver) {}
  void *allocate(int64_t bytes) override;
  void release(void *memory) override;
  uint64_t moves = 0;

private:
  const Driver &driver;
};

class CudaMatrix;
class NcclBackend;

class CudaDevice final : public Device {
public:
  /// `nccl`: null if ranks communicate through the host. `measures`: tunes GEMM algorithms, instead
  /// of using the library's first recommendation.
  CudaDevice(const Driver &driver, const blas::Library &library, const nccl::Library *nccl,
             const Gpu &gpu, bool measures);
  ~CudaDevice() override;

  bool isHost() const override { return false; }
  void *allocate(int64_t bytes) override;
  void release(void *memory) override;
  MemorySource &frames() override { return frameMemory; }
  const void *share(const void *host, int64_t bytes) override;
  void unshare(const void *shared) override;
  int64_t writeBytes() const override;
  void clear(void *memory, int64_t bytes) override;
  std::byte *beginWrite(void *to, int64_t bytes) override;
  void endWrite() override;
  const std::byte *beginRead(const void *from, int64_t bytes) override;
  void endRead() override {}
  void deliver(const void *from, int64_t bytes, Taker take, Destination destination) override;
  bool pin(void *host, int64_t bytes) override;
  void unpin(void *host) override;
  void beginAccess() override;
  void endAccess() override;
  void *map(void *data, int64_t bytes, Use use) override;

  void load(const tpc_program &loaded) override;
  const void *constant(int32_t index) override;
  bool computes(int32_t dtype) const override;
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override;
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) override;
  std::unique_ptr<WeightLoader> makeWeightLoader() override;
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n,
                                      int32_t dtype) override;

  void beginStep(const std::vector<int64_t> &values) override;
  void setEnv(int32_t index, int64_t value) override;
  void copy(void *to, const void *from, int64_t bytes) override;
  void copyRows(const Rows &rows) override;
  bool accumulate(float *sum, const float *from, int64_t count) override;
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              int64_t grain) override;
  void multiply(const rt::Products &products) override;
  bool multiplyFused(const rt::Products &products, const tpc_fusion &fusion) override;
  void batchProduct(const BatchProduct &product) override;
  void attention(const tpc_attention_args &args) override;
  void experts(const tpc_experts_args &args) override;
  void exchangeRows(RoutedWork work, const RoutedRows &rows, void *tensor) override;
  void append(const tpc_append_args &args) override;
  bool sample(const SamplingRequest &request, SamplingConsumer take) override;
  void sumBins(const float *scores, int64_t count, float largest, std::span<int64_t> sums) override;
  tpc_status endStep() override;
  std::unique_ptr<CollectiveBackend> makeCollectiveBackend() override;

  std::vector<std::string> pendingTunings() override;
  int64_t tuningBytes(const std::string &tuningKey) override;
  std::string tune(const std::string &tuningKey, void *memory) override;
  bool applyTuning(const std::string &tuningKey, const std::string &tuning) override;

  bool canRecord() const override { return true; }
  std::unique_ptr<Recording> prepareRecording() override;
  void beginRecording(Recording &recording) override;
  void endRecording(Recording &recording) override;
  void abandonRecording() override;
  void replay(Recording &recording) override;
  bool canReplayAhead(const Recording &recording) const override;
  void replayAhead(Recording &recording) override;
  tpc_status takeAhead() override;
  void dropAhead() override;
  uint64_t memoryVersion() const override;

  std::optional<std::string> pending() const override { return queue.inFlight.pending(); }
  uint64_t workVersion() const override { return queue.inFlight.moves(); }

private:
  /// Maximum number of rows that the GPU samples; the host samples larger steps.
  static constexpr int64_t maxSampledRows = 1024;

  /// Makes this device current for the calling thread. Throws the pending error of an earlier call
  /// that could not throw.
  void enterContext();
  /// The same, before work that may overwrite outputs of the step.
  void enter();
  void copyNow(StepResult result);
  /// Copies outputs now that would be copied after the step.
  void copyOutputs();
  /// Enqueues the graph of a recording.
  void launch(CudaRecording &recording);
  void upload(Address to, const std::byte *from, int64_t bytes);

  /// Pinned memory that is being copied to the GPU, and an event after the copy.
  struct Upload {
    explicit Upload(Queue &queue) : memory(queue.driver), arrived(queue) {}
    /// Returns the memory once the previous copy has completed.
    std::byte *begin(int64_t bytes) {
      arrived.wait();
      return memory.reserve(bytes);
    }
    Pinned memory;
    Mark arrived;
  };
  /// A copy of a host tensor.
  struct SharedTensor {
    SharedTensor(Queue &queue, int64_t bytes)
        : bytes(bytes), block(queue.driver, bytes), upload(queue) {}
    int64_t bytes;
    Block block;
    Upload upload;
    bool isFree = false;
  };
  /// Host view of a range of device memory.
  struct Mapping {
    Pinned memory;
    Address at;
    int64_t bytes;
    bool written;
  };

  /// Returns the host's copy of a tensor that it shares, or null.
  const std::byte *hostCopyOf(const void *shared);
  /// Returns the properties of the machine that determine the best algorithm of a GEMM shape.
  std::string machine() const;
  /// Returns the GEMM shape of a tuning key of this GPU.
  std::optional<MatmulShape> shapeOf(const std::string &tuningKey) const;
  /// Registers a right-hand side of GEMMs before the first step.
  void addMatrix(const std::shared_ptr<CudaMatrix> &matrix);
  /// Returns resident right-hand sides of GEMMs of this shape.
  std::vector<Address> matricesOf(const MatmulShape &shape);

  const Driver &driver;
  const blas::Library &library;
  const nccl::Library *const nccl;
  const bool measures;
  Queue queue;
  NcclMemory frameMemory;
  Block workspace, status;
  GemvKernels gemv;
  cuda::Matmuls products;
  std::vector<std::weak_ptr<const CudaMatrix>> matrices;
  std::list<SharedTensor> shared;
  Upload uploads[2];
  int current = 0; // index into uploads
  Address writeTo = 0;
  int64_t writeSize = 0;
  Pinned download;
  std::vector<Mapping> mappings;
  size_t numMappings = 0;          // number of mappings in use
  std::exception_ptr pendingError; ///< error of a function that must not throw

  const tpc_program *program = nullptr;
  std::unique_ptr<Kernels> kernels;
  Attention attentions;
  LibraryKernels appending, sampling, accumulating;
  ExpertKernels expertKernels;
  RoutedKernels routedKernels;
  Block bins; ///< sums of the score weights of a row, by bin
  /// Sampling results of each call in a step, and the number of calls.
  std::vector<std::unique_ptr<Block>> sampled;
  size_t numSampled = 0;
  /// Counters through which the blocks of a row combine their results; shared by all calls.
  std::unique_ptr<Block> samplingJoins;
  std::unique_ptr<Block> constants;
  std::vector<Address> constantAddresses;
  std::vector<int64_t> env;
  std::unique_ptr<Block> gpuEnv;
  Upload envUpload;

  // State of a step: delivered outputs, their memory, and whether the host was involved.
  StepResults stepResults;
  std::vector<StepResult> results;
  PinnedMemory pinnedMemory;
  Arena delivered;
  std::vector<CudaRecording::Delivery> deliveries;
  CudaRecording *replayed = nullptr;
  bool hostParticipates = false;
  uint64_t moves = 0;

  NcclBackend *backend = nullptr; // owned by the transport
  std::unique_ptr<Block> stepNumbers;
  std::unique_ptr<Transfers> transfers;
  Pinned stepReached;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CUDADEVICE_H
