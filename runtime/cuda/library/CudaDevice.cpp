//===- CudaDevice.cpp - CUDA device ---------------------------------------===//

#include "cuda/library/CudaDevice.h"
#include "core/DType.h"
#include "cuda/library/AccumulateKernels.h"
#include "cuda/library/AppendKernels.h"
#include "cuda/library/CudaMatrix.h"
#include "cuda/library/CudaWeightLoader.h"
#include "cuda/library/SamplingKernels.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

/// Size of a staging buffer for weights; two of them are pinned.
constexpr int64_t pieceBytes = 32 << 20;
/// Workspace of GEMMs, as recommended by the library's manual.
constexpr int64_t workspaceBytes = 4 << 20, workspaceBytesFrom90 = 32 << 20;
constexpr int64_t minBytes = minBlockBytes;
constexpr int64_t binsBytes = 2 * numTopPBins * sizeof(int64_t);

int64_t workspaceOf(const Gpu &gpu) {
  return gpu.architecture >= 90 ? workspaceBytesFrom90 : workspaceBytes;
}

} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(const Driver &driver, const blas::Library &library,
                       const nccl::Library *nccl, const Gpu &gpu, bool measures)
    : driver(driver), library(library), nccl(nccl), measures(measures), queue(driver, gpu),
      frameMemory(queue, nccl, *this), workspace(driver, workspaceOf(gpu)),
      status(driver, minBytes), gemv(queue, GemvKernels::useOf(std::getenv("TPC_GEMV"), measures),
                                     workspace.address, workspaceOf(gpu)),
      products(driver, library, gemv, workspace.address, workspaceOf(gpu), queue.stream),
      uploads{Upload(queue), Upload(queue)}, download(driver),
      attentions(driver, queue.stream, !measures),
      appending(queue, appendKernels, appendKernelNames, "add to caches"),
      sampling(queue, samplingKernels, samplingKernelNames, "choose tokens"),
      accumulating(queue, accumulateKernels, accumulateKernelNames, "add gradients"),
      expertKernels(queue), routedKernels(queue), bins(driver, binsBytes), envUpload(queue),
      stepResults(queue), pinnedMemory(driver), delivered(pinnedMemory), stepReached(driver) {}

CudaDevice::~CudaDevice() {
  try {
    queue.enter();
    queue.synchronize();
  } catch (const std::exception &) {
    // The error was already reported, or is irrelevant at destruction.
  }
}

void CudaDevice::enterContext() {
  queue.enter();
  if (pendingError)
    std::rethrow_exception(std::exchange(pendingError, nullptr));
}

void CudaDevice::enter() {
  enterContext();
  copyOutputs();
}

void *CudaDevice::allocate(int64_t bytes) {
  if (bytes < 0)
    return nullptr;
  enter();
  Address address = 0;
  Result result =
      driver.cuMemAlloc_v2(&address, static_cast<size_t>(std::max<int64_t>(bytes, minBytes)));
  if (result == outOfMemory)
    return nullptr;
  driver.check(result, "to allocate memory");
  return pointerTo(address);
}

// Destructors call this, possibly while the error of a failed device propagates. Errors here
// surface at the next wait.
void CudaDevice::release(void *memory) {
  driver.cuCtxSetCurrent(queue.context);
  InFlightOperations::Wait wait;
  driver.cuStreamSynchronize(queue.stream);
  ++moves;
  driver.cuMemFree_v2(addressOf(memory));
}

void CudaDevice::upload(Address to, const std::byte *from, int64_t bytes) {
  if (bytes > 0)
    driver.check(driver.cuMemcpyHtoDAsync_v2(to, from, static_cast<size_t>(bytes), queue.stream),
                 "to copy from the host");
}

const void *CudaDevice::share(const void *host, int64_t bytes) {
  enter();
  auto tensor = std::find_if(shared.begin(), shared.end(), [&](const SharedTensor &one) {
    return one.isFree && one.bytes >= bytes && one.bytes <= 2 * std::max(bytes, minBytes);
  });
  if (tensor == shared.end())
    tensor = shared.emplace(shared.end(), queue, std::max(bytes, minBytes));
  tensor->isFree = false;
  std::byte *staged = tensor->upload.begin(tensor->bytes);
  if (bytes > 0)
    std::memcpy(staged, host, static_cast<size_t>(bytes));
  upload(tensor->block.address, staged, bytes);
  tensor->upload.arrived.set();
  return pointerTo(tensor->block.address);
}

// The host tensor was copied and is no longer needed. The next copy into this block follows all
// enqueued work.
void CudaDevice::unshare(const void *pointer) {
  for (SharedTensor &one : shared)
    one.isFree |= one.block.address == addressOf(pointer);
}

const std::byte *CudaDevice::hostCopyOf(const void *pointer) {
  for (SharedTensor &one : shared)
    if (!one.isFree && one.block.address == addressOf(pointer))
      return one.upload.memory.data();
  return nullptr;
}

int64_t CudaDevice::writeBytes() const { return pieceBytes; }

void CudaDevice::clear(void *memory, int64_t bytes) {
  enter();
  if (bytes > 0)
    driver.check(
        driver.cuMemsetD8Async(addressOf(memory), 0, static_cast<size_t>(bytes), queue.stream),
        "to clear memory");
}

std::byte *CudaDevice::beginWrite(void *to, int64_t bytes) {
  enter();
  writeTo = addressOf(to);
  writeSize = bytes;
  return uploads[current].begin(std::max(bytes, minBytes));
}

void CudaDevice::endWrite() {
  Upload &filled = uploads[current];
  upload(writeTo, filled.memory.data(), writeSize);
  filled.arrived.set();
  current = 1 - current;
}

const std::byte *CudaDevice::beginRead(const void *from, int64_t bytes) {
  enter();
  hostParticipates = true;
  std::byte *to = download.reserve(std::max(bytes, minBytes));
  if (bytes > 0)
    driver.check(
        driver.cuMemcpyDtoHAsync_v2(to, addressOf(from), static_cast<size_t>(bytes), queue.stream),
        "to copy to the host");
  queue.synchronize();
  return to;
}

//===----------------------------------------------------------------------===//
// Access by transports
//===----------------------------------------------------------------------===//

void CudaDevice::beginAccess() {
  enter();
  hostParticipates = true;
  queue.synchronize();
  numMappings = 0;
}

void *CudaDevice::map(void *data, int64_t bytes, Use use) {
  if (bytes <= 0)
    return data;
  if (numMappings == mappings.size())
    mappings.push_back({Pinned(driver), 0, 0, false});
  Mapping &mapping = mappings[numMappings++];
  mapping.memory.reserve(bytes);
  mapping.at = addressOf(data);
  mapping.bytes = bytes;
  mapping.written = use != Use::Read;
  if (use != Use::Write) {
    driver.check(driver.cuMemcpyDtoHAsync_v2(mapping.memory.data(), mapping.at,
                                             static_cast<size_t>(bytes), queue.stream),
                 "to copy to the host");
    queue.synchronize();
  }
  return mapping.memory.data();
}

// Destructors call this, so the next call throws the error.
void CudaDevice::endAccess() {
  try {
    for (size_t i = 0; i < numMappings; ++i)
      if (mappings[i].written)
        upload(mappings[i].at, mappings[i].memory.data(), mappings[i].bytes);
  } catch (const std::exception &) {
    pendingError = std::current_exception();
  }
  numMappings = 0;
}

//===----------------------------------------------------------------------===//
// Persistent memory
//===----------------------------------------------------------------------===//

void CudaDevice::load(const tpc_program &loaded) {
  if (program == &loaded)
    return;
  enter();
  kernels = std::make_unique<Kernels>(queue, loaded);
  const tpc_gpu_code &code = *loaded.gpu_code;
  if (std::any_of(code.attentions, code.attentions + code.num_attentions,
                  [](const tpc_gpu_attention &variant) { return variant.cached != 0; }))
    for (LibraryKernels *libraryKernels : {&appending, &sampling})
      libraryKernels->load();
  products.useTf32(code.tf32 != 0);
  constants.reset();
  constantAddresses.clear();
  auto spaceOf = [](const tpc_data &data) {
    return static_cast<int64_t>(Arena::alignUp(static_cast<size_t>(data.bytes)));
  };
  int64_t total = 0;
  for (int32_t i = 0; i < loaded.num_constants; ++i)
    total += spaceOf(loaded.constants[i]);
  if (total > 0)
    constants = std::make_unique<Block>(driver, total);
  Address next = constants ? constants->address : 0;
  for (int32_t i = 0; i < loaded.num_constants; ++i) {
    const tpc_data &data = loaded.constants[i];
    Address address = constantAddresses.emplace_back(next);
    next += static_cast<Address>(spaceOf(data));
    for (int64_t at = 0; at < data.bytes; at += pieceBytes) {
      int64_t bytes = std::min(pieceBytes, data.bytes - at);
      std::memcpy(beginWrite(pointerTo(address + static_cast<Address>(at)), bytes),
                  static_cast<const std::byte *>(data.data) + at, static_cast<size_t>(bytes));
      endWrite();
    }
  }
  program = &loaded;
}

const void *CudaDevice::constant(int32_t index) {
  return pointerTo(constantAddresses[static_cast<size_t>(index)]);
}

bool CudaDevice::computes(int32_t dtype) const {
  return dtype == TPC_F32 || dtype == TPC_F16 || dtype == TPC_BF16;
}

void CudaDevice::addMatrix(const std::shared_ptr<CudaMatrix> &matrix) {
  gemv.prepare(matrix->k, matrix->n, matrix->dtype, matrix->transposed);
  matrices.push_back(matrix);
}

std::vector<std::shared_ptr<Matrix>>
CudaDevice::makeMatrices(int64_t k, std::span<const int64_t> widths, int32_t dtype) {
  enter();
  int64_t n = std::accumulate(widths.begin(), widths.end(), int64_t(0));
  auto block = std::make_shared<Block>(driver, std::max(k * n * sizeOf(dtype), minBytes));
  return makeColumns(block->address, k, widths, dtype, block,
                     [this](const std::shared_ptr<CudaMatrix> &matrix) { addMatrix(matrix); });
}

void CudaDevice::setRows(Matrix &base, int64_t row0, int64_t row1, const void *rows) {
  auto &matrix = static_cast<CudaMatrix &>(base);
  int64_t rowBytes = matrix.n * sizeOf(matrix.dtype);
  if (rowBytes == 0)
    return;
  // Columns are written row by row.
  int64_t stride = matrix.rowStride * sizeOf(matrix.dtype);
  int64_t step = stride == rowBytes ? std::max<int64_t>(pieceBytes / rowBytes, 1) : 1;
  for (int64_t row = row0; row < row1; row += step) {
    int64_t bytes = (std::min(row + step, row1) - row) * rowBytes;
    std::memcpy(beginWrite(pointerTo(matrix.rows + static_cast<Address>(row * stride)), bytes),
                static_cast<const std::byte *>(rows) + (row - row0) * rowBytes,
                static_cast<size_t>(bytes));
    endWrite();
  }
}

// Stages through the GEMM workspace, which is unused while weights load.
std::unique_ptr<WeightLoader> CudaDevice::makeWeightLoader() {
  return std::make_unique<CudaWeightLoader>(
      *this, queue, [this](const std::shared_ptr<CudaMatrix> &matrix) { addMatrix(matrix); },
      workspace.address, workspaceOf(queue.gpu));
}

std::shared_ptr<Matrix> CudaDevice::transposeOf(const void *rows, int64_t k, int64_t n,
                                                int32_t dtype) {
  auto matrix = std::make_shared<CudaMatrix>(k, n, dtype, addressOf(rows), true, nullptr);
  addMatrix(matrix);
  return matrix;
}

} // namespace tpc::rt::cuda
