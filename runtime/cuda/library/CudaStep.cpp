//===- CudaStep.cpp - Steps of a GPU and their recordings -----------------===//
//
// A recording is a CUDA graph of all work that one step enqueues after its inputs have arrived.
// Data that changes between replays is at fixed addresses: inputs, env and status are written
// before the launch, and arguments of attention have separate slots. Graph nodes copy outputs to
// pinned memory; the end of the step delivers them. Sampled tokens are copied after the graph.
//
// A step that samples may advance its inputs (AdvanceInputs.h). The graph can then be launched
// again without the host. The results of these steps have separate pinned memory (StepResults.h).
//
// Streams are captured in thread-local mode: other ranks of the process are unaffected. The first
// step of a shape does all loading, connecting and allocating, so that none of it happens during a
// capture.
//
//===----------------------------------------------------------------------===//

#include "core/DType.h"
#include "cuda/library/AccumulateKernels.h"
#include "cuda/library/AdvanceInputs.h"
#include "cuda/library/AppendKernels.h"
#include "cuda/library/CopyRows.h"
#include "cuda/library/CudaDevice.h"
#include "cuda/library/CudaMatrix.h"
#include "cuda/library/NcclBackend.h"
#include "cuda/library/SamplingKernels.h"
#include "cuda/library/SumBins.h"
#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace tpc::rt::cuda {

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void CudaDevice::beginStep(const std::vector<int64_t> &values) {
  enterContext();
  dropAhead();
  auto bytes = static_cast<int64_t>(values.size() * sizeof(int64_t));
  if (!gpuEnv || values.size() > env.size()) {
    queue.synchronize(); // the old block is in use until all work is done
    ++moves;
    gpuEnv = std::make_unique<Block>(driver, std::max(bytes, minBlockBytes));
  }
  attentions.beginStep();
  deliveries.clear();
  results.clear();
  hostParticipates = false;
  numSampled = 0;
  env = values;
  std::byte *staged = envUpload.begin(std::max(bytes, minBlockBytes));
  std::memcpy(staged, values.data(), static_cast<size_t>(bytes));
  upload(gpuEnv->address, staged, bytes);
  envUpload.arrived.set();
  driver.check(driver.cuMemsetD8Async(status.address, 0, sizeof(tpc_status), queue.stream),
               "to clear memory");
}

// Writes numbers in stream order, without a host buffer that must stay valid.
void CudaDevice::setEnv(int32_t index, int64_t value) {
  enter();
  env[static_cast<size_t>(index)] = value;
  auto bits = static_cast<uint64_t>(value);
  Address at = gpuEnv->address + static_cast<Address>(index) * sizeof(int64_t);
  for (uint64_t half : {bits & 0xffffffff, bits >> 32}) {
    driver.check(driver.cuMemsetD32Async(at, static_cast<unsigned>(half), 1, queue.stream),
                 "to write to memory");
    at += sizeof(uint32_t);
  }
}

void CudaDevice::copy(void *to, const void *from, int64_t bytes) {
  enter();
  driver.check(driver.cuMemcpyDtoDAsync_v2(addressOf(to), addressOf(from),
                                           static_cast<size_t>(bytes), queue.stream),
               "to copy");
  InFlightOperations::add(driver, queue.stream, "a copy");
}

void CudaDevice::copyRows(const Rows &rows) {
  enter();
  cuda::copyRows(driver, queue.stream, rows, "to copy rows");
  InFlightOperations::add(driver, queue.stream, "a copy of rows");
}

bool CudaDevice::accumulate(float *sum, const float *from, int64_t count) {
  enter();
  AccumulateLaunch launch(sum, from, count);
  accumulating.run(accumulateKernelNames[0], launch, launch.blocks(queue.gpu.multiprocessors));
  return true;
}

void CudaDevice::experts(const tpc_experts_args &args) {
  enter();
  if (args.experts == 0 || args.inner == 0)
    driver.check(driver.cuMemsetD8Async(
                     addressOf(args.out), 0,
                     static_cast<size_t>(args.tokens * args.outputs) * sizeof(float), queue.stream),
                 "to clear memory");
  else if (args.tokens > 0 && args.outputs > 0)
    expertKernels.run(args, workspace.address, workspace.bytes);
}

void CudaDevice::exchangeRows(RoutedWork work, const RoutedRows &rows, void *tensor) {
  enter();
  routedKernels.run(work, rows, addressOf(tensor));
}

void CudaDevice::append(const tpc_append_args &args) {
  enter();
  AppendLaunch launch(args);
  appending.run(launch.name(), launch, launch.blocks(queue.gpu.multiprocessors));
}

void CudaDevice::launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
                        int64_t) {
  enter();
  kernels->launch(kernel, operands, count, rows, env.data(), gpuEnv->address, status.address);
}

/// Returns whether one GEMM computes `next` together with the product before it: their matrices are
/// adjacent columns of one matrix, and so are their results and biases.
static bool continues(const Product &last, const Product &next) {
  auto &a = static_cast<const CudaMatrix &>(*last.matrix);
  auto &b = static_cast<const CudaMatrix &>(*next.matrix);
  int64_t bytes = a.n * sizeOf(last.dtype);
  auto isAdjacent = [&](const float *x, const float *y) {
    return addressOf(x) + static_cast<Address>(bytes) == addressOf(y);
  };
  return a.whole && a.whole == b.whole && a.column + a.n == b.column && last.dtype == next.dtype &&
         last.outStride && last.outStride == next.outStride && isAdjacent(last.out, next.out) &&
         !last.residual && !next.residual &&
         (last.bias ? next.bias && isAdjacent(last.bias, next.bias) : !next.bias);
}

/// Returns the GEMM that computes the matmul at `next` and those that continue it, and advances
/// `next` past them.
static MatmulCall takeMerged(const rt::Products &all, size_t &next) {
  const Product &product = all.list[next];
  auto &matrix = static_cast<const CudaMatrix &>(*product.matrix);
  int64_t n = matrix.n;
  size_t end = next + 1;
  for (; end < all.list.size() && continues(all.list[end - 1], all.list[end]); ++end)
    n += all.list[end].matrix->n;
  for (; next < end; ++next)
    if (all.list[next].epilogue != TPC_EPILOGUE_NONE)
      throw std::runtime_error("internal error: a GPU matmul has an activation");
  return {.m = all.m,
          .k = all.k,
          .n = n,
          .x = all.x,
          .w = pointerTo(matrix.rows),
          .out = product.out,
          .transposed = matrix.transposed,
          .bias = product.bias,
          .residual = product.residual,
          .wRow = matrix.transposed ? 0 : matrix.rowStride,
          .outRow = product.outStride,
          .dtype = all.dtype,
          .outDtype = product.dtype,
          .isWeight = true};
}

void CudaDevice::multiply(const rt::Products &all) {
  enter();
  for (size_t next = 0; next < all.list.size();)
    products.compute(takeMerged(all, next));
}

bool CudaDevice::multiplyFused(const rt::Products &all, const tpc_fusion &fusion) {
  enter();
  size_t next = 0;
  MatmulCall call = takeMerged(all, next);
  // One GEMM must compute all matmuls, and both halves of a gated one must be equally wide.
  if (next != all.list.size() ||
      (fusion.gated && all.list.front().matrix->n != all.list.back().matrix->n) ||
      (fusion.activation && call.residual))
    return false;
  int64_t dense = fusion.gated ? call.n / 2 : call.n;
  return products.compute(call, {.x = fusion.norm ? fusion.source : call.x,
                                 .scale = fusion.scale,
                                 .shift = fusion.shift,
                                 .out = fusion.activation ? fusion.out : call.out,
                                 .outRow = fusion.activation || !call.outRow ? dense : call.outRow,
                                 .norm = fusion.norm,
                                 .activation = fusion.activation,
                                 .gated = fusion.gated != 0,
                                 .epsilon = fusion.epsilon,
                                 .xDtype = fusion.norm ? fusion.source_dtype : call.dtype,
                                 .scaleDtype = fusion.norm ? fusion.scale_dtype : call.dtype});
}

void CudaDevice::batchProduct(const BatchProduct &p) {
  enter();
  products.compute({.m = p.m,
                    .k = p.k,
                    .n = p.n,
                    .x = p.a,
                    .w = p.b,
                    .out = p.out,
                    .batch = p.batch,
                    .xStride = p.aStride,
                    .wStride = p.bStride,
                    .dtype = p.dtype,
                    .outDtype = p.dtype});
}

void CudaDevice::attention(const tpc_attention_args &args) {
  enter();
  const std::byte *lengths = args.lengths ? hostCopyOf(args.lengths) : nullptr;
  attentions.compute(*kernels, args, reinterpret_cast<const int64_t *>(lengths));
}

// Each sampling call of a step has separate memory, which stays valid until the next step begins.
// It may grow in the first step of a shape; recorded steps are then recorded again.
bool CudaDevice::sample(const SamplingRequest &request, SamplingConsumer take) {
  const char *kernel = samplingKernel(request.dtype);
  if (!kernel || request.rows > maxSampledRows || request.first + request.count > INT32_MAX)
    return false;
  enter();
  const SamplingSizes sizes(request);
  if (numSampled == sampled.size())
    sampled.push_back(nullptr);
  std::unique_ptr<Block> &memory = sampled[numSampled++];
  if (!memory || memory->bytes < sizes.bytes()) {
    queue.synchronize(); // the old block is in use until all work is done
    ++moves;
    memory.reset();
    memory = std::make_unique<Block>(driver, sizes.bytes());
  }
  if (!samplingJoins) {
    constexpr int64_t bytes = maxSampledRows * SamplingLaunch::joinBytes;
    samplingJoins = std::make_unique<Block>(driver, bytes);
    driver.check(driver.cuMemsetD8Async(samplingJoins->address, 0, bytes, queue.stream),
                 "to clear memory");
  }
  SamplingLaunch launch(request, sizes, memory->address, samplingJoins->address);
  sampling.run(kernel, launch, request.rows * sizes.slices);
  SamplingResult made{static_cast<const int64_t *>(pointerTo(launch.largest)),
                      static_cast<const float *>(pointerTo(launch.scores))};
  if (request.advanced.tokens) {
    AdvanceInputsLaunch advance(request, launch.best);
    sampling.run(advanceInputsName, advance, advance.blocks());
  }
  results.push_back({launch.best, sizes.best,
                     [take = std::move(take), made](const std::byte *best) { take(best, made); }});
  return true;
}

void CudaDevice::sumBins(const float *scores, int64_t count, float largest,
                         std::span<int64_t> sums) {
  enter();
  sampling.run(sumBinsName, SumBinsLaunch(scores, count, largest, bins.address), 1);
  auto bytes = static_cast<int64_t>(sums.size_bytes());
  std::memcpy(sums.data(), beginRead(pointerTo(bins.address), bytes), static_cast<size_t>(bytes));
}

//===----------------------------------------------------------------------===//
// End of a step
//===----------------------------------------------------------------------===//

void *PinnedMemory::allocate(int64_t bytes) {
  void *memory = nullptr;
  Result result =
      driver.cuMemHostAlloc(&memory, static_cast<size_t>(std::max(bytes, minBlockBytes)), portable);
  if (result == outOfMemory)
    return nullptr;
  driver.check(result, "to pin host memory");
  return memory;
}

void PinnedMemory::release(void *memory) {
  ++moves;
  driver.cuMemFreeHost(memory);
}

bool CudaDevice::pin(void *host, int64_t bytes) {
  enterContext();
  return driver.cuMemHostRegister_v2(host, static_cast<size_t>(bytes), portable) == success;
}

// Destructors call this.
void CudaDevice::unpin(void *host) {
  driver.cuCtxSetCurrent(queue.context);
  driver.cuMemHostUnregister(host);
}

// If no work follows in the step, outputs are copied after its graph: the graph does not contain
// the address, so results may be at other addresses in each step. With a collective backend they
// are copied at once, because its work, which does not pass through this object, may follow.
void CudaDevice::deliver(const void *from, int64_t bytes, Taker take, Destination destination) {
  if (destination && !backend) {
    enterContext();
    results.push_back({addressOf(from), bytes, std::move(take), std::move(destination), true});
    return;
  }
  enter();
  copyNow({addressOf(from), bytes, std::move(take)});
}

void CudaDevice::copyNow(StepResult result) {
  auto *to = static_cast<std::byte *>(delivered.push(result.bytes));
  if (!to)
    throw std::bad_alloc();
  if (result.bytes > 0)
    driver.check(driver.cuMemcpyDtoHAsync_v2(to, result.from, static_cast<size_t>(result.bytes),
                                             queue.stream),
                 "to copy to the host");
  InFlightOperations::add(driver, queue.stream, "a copy to the host");
  deliveries.push_back({to, std::move(result.take)});
}

void CudaDevice::copyOutputs() {
  auto isFrame = [](const StepResult &result) { return result.isFrame; };
  if (std::none_of(results.begin(), results.end(), isFrame))
    return;
  std::vector<StepResult> all = std::exchange(results, {});
  for (StepResult &result : all)
    if (result.isFrame)
      copyNow(std::move(result));
    else
      results.push_back(std::move(result));
}

tpc_status CudaDevice::endStep() {
  enterContext();
  if (transfers && !replayed)
    transfers->join();
  const std::vector<StepResult> &copied = replayed ? replayed->results : results;
  stepResults.enqueue(copied, status.address, /*isAhead=*/false);
  InFlightOperations::add(driver, queue.stream, "a copy to the host");
  queue.synchronize();
  for (const auto &[data, take] : replayed ? replayed->deliveries : deliveries)
    take(data);
  tpc_status met = stepResults.take();
  replayed = nullptr;
  deliveries.clear();
  results.clear();
  delivered.clear();
  return met;
}

//===----------------------------------------------------------------------===//
// Recordings
//===----------------------------------------------------------------------===//

uint64_t CudaDevice::memoryVersion() const {
  return moves + frameMemory.moves() + pinnedMemory.moves + attentions.memoryVersion() +
         products.memoryVersion() + (transfers ? transfers->memoryVersion() : 0);
}

std::unique_ptr<Recording> CudaDevice::prepareRecording() {
  enter();
  if (hostParticipates || attentions.dependsOnLengths() ||
      InFlightOperations::isBlocking()) // calls within a graph cannot be waited for separately
    return nullptr;
  auto recording = std::make_unique<CudaRecording>(queue);
  if (int64_t bytes = attentions.bytesOfStep())
    recording->attentionArgs = std::make_unique<Block>(driver, std::max(bytes, minBlockBytes));
  return recording;
}

void CudaDevice::beginRecording(Recording &recording) {
  enter();
  auto &cudaRecording = static_cast<CudaRecording &>(recording);
  driver.check(driver.cuStreamBeginCapture_v2(queue.stream, captureThreadLocal),
               "to record a step");
  attentions.beginRecording(cudaRecording.attentionArgs ? cudaRecording.attentionArgs->address : 0);
  queue.inFlight.beginRecording();
  if (backend) {
    backend->beginRecording();
    transfers->reset(/*recording=*/true);
  }
}

void CudaDevice::endRecording(Recording &recording) {
  enterContext();
  auto &cudaRecording = static_cast<CudaRecording &>(recording);
  if (transfers)
    transfers->join();
  Graph graph = nullptr;
  driver.check(driver.cuStreamEndCapture(queue.stream, &graph), "to record a step");
  Result result = driver.cuGraphInstantiateWithFlags(&cudaRecording.exec, graph, 0);
  driver.cuGraphDestroy(graph);
  driver.check(result, "to make a graph of a step");
  attentions.endRecording();
  cudaRecording.deliveries = std::exchange(deliveries, {});
  cudaRecording.results = std::exchange(results, {});
  cudaRecording.calls = queue.inFlight.endRecording();
  if (backend) {
    cudaRecording.operations = backend->endRecording();
    transfers->reset(/*recording=*/false);
  }
}

void CudaDevice::abandonRecording() {
  // The thread that destroys a world makes the contexts of all its ranks current.
  driver.cuCtxSetCurrent(queue.context);
  Graph graph = nullptr;
  if (driver.cuStreamEndCapture(queue.stream, &graph) == success && graph)
    driver.cuGraphDestroy(graph);
  attentions.abandonRecording();
  queue.inFlight.endRecording();
  if (backend) {
    backend->endRecording();
    transfers->reset(/*recording=*/false);
  }
}

void CudaDevice::launch(CudaRecording &recording) {
  enterContext();
  if (backend)
    backend->replay(recording.operations);
  driver.check(driver.cuGraphLaunch(recording.exec, queue.stream), "to launch the graph of a step");
  queue.inFlight.replay(recording.calls,
                        backend ? backend->numberReached(recording.operations) : nullptr);
}

void CudaDevice::replay(Recording &recording) {
  auto &cudaRecording = static_cast<CudaRecording &>(recording);
  launch(cudaRecording);
  replayed = &cudaRecording;
}

bool CudaDevice::canReplayAhead(const Recording &recording) const {
  auto &cudaRecording = static_cast<const CudaRecording &>(recording);
  auto isFrame = [](const StepResult &result) { return result.isFrame; };
  return cudaRecording.exec && cudaRecording.deliveries.empty() && !cudaRecording.results.empty() &&
         !backend &&
         std::none_of(cudaRecording.results.begin(), cudaRecording.results.end(), isFrame);
}

void CudaDevice::replayAhead(Recording &recording) {
  auto &cudaRecording = static_cast<CudaRecording &>(recording);
  if (!stepResults.inFlight())
    stepResults.reserve(cudaRecording.results, maxStepsAhead);
  launch(cudaRecording);
  stepResults.enqueue(cudaRecording.results, status.address, /*isAhead=*/true);
}

tpc_status CudaDevice::takeAhead() {
  enterContext();
  tpc_status met = stepResults.take();
  if (!stepResults.inFlight())
    queue.inFlight.clear();
  return met;
}

void CudaDevice::dropAhead() {
  if (!stepResults.inFlight())
    return;
  enterContext();
  queue.synchronize();
  stepResults.drop();
}

//===----------------------------------------------------------------------===//
// CollectiveBackend
//===----------------------------------------------------------------------===//

std::unique_ptr<CollectiveBackend> CudaDevice::makeCollectiveBackend() {
  if (!nccl)
    return nullptr;
  enter();
  constexpr uint32_t count = 1 << 16;
  constexpr int64_t bytes = count * sizeof(uint32_t);
  stepNumbers = std::make_unique<Block>(driver, bytes);
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::memcpy(beginWrite(pointerTo(stepNumbers->address), bytes), numbers.data(), bytes);
  endWrite();
  auto *reached = reinterpret_cast<uint32_t *>(stepReached.reserve(sizeof(uint32_t)));
  *reached = 0;
  transfers = std::make_unique<Transfers>(driver, queue.stream);
  auto made = std::make_unique<NcclBackend>(queue, *nccl, frameMemory, *transfers,
                                            StepNumbers{stepNumbers->address, count, reached});
  backend = made.get();
  return made;
}

} // namespace tpc::rt::cuda
