//===- Attention.cpp - Attention on a GPU ---------------------------------===//

#include "cuda/library/Attention.h"
#include "cuda/library/InFlightOperations.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt::cuda {

using attention::Kernel;

Address Attention::writeArguments(const tpc_attention_args &args) {
  if (used == pieces.size() * callsPerChunk)
    pieces.push_back(std::make_unique<Piece>(driver));
  Piece &piece = *pieces[used / callsPerChunk];
  size_t number = used++, offset = number % callsPerChunk * sizeof(args);
  std::byte *staged = piece.host.data() + offset;
  std::memcpy(staged, &args, sizeof(args));
  if (recorded)
    return recorded + number * sizeof(args);
  Address at = piece.block.address + offset;
  driver.check(driver.cuMemcpyHtoDAsync_v2(at, staged, sizeof(args), stream),
               "to copy from the host");
  return at;
}

void Attention::endRecording() {
  constexpr size_t pieceBytes = callsPerChunk * sizeof(tpc_attention_args);
  size_t bytes = used * sizeof(tpc_attention_args);
  for (size_t at = 0; at < bytes; at += pieceBytes)
    driver.check(driver.cuMemcpyHtoDAsync_v2(recorded + at, pieces[at / pieceBytes]->host.data(),
                                             std::min(bytes - at, pieceBytes), stream),
                 "to copy from the host");
  abandonRecording();
}

void Attention::compute(Kernels &kernels, const tpc_attention_args &args, const int64_t *lengths) {
  const tpc_gpu_attention &variant = kernels.attentionOf(args);
  if (variant.library && fused.compute(args, lengths, isRecording))
    return InFlightOperations::add(driver, stream, "attention by cuDNN");
  Address at = writeArguments(args);
  if (!attention::splitsKeys(args))
    return kernels.launch(variant.tiles, attention::getItems(Kernel::Tiles, args), {at});
  reserve(workspace, attention::getWorkspaceBytes(args));
  if (reserve(counters, attention::getCounterBytes(args)))
    driver.check(
        driver.cuMemsetD8Async(counters->address, 0, static_cast<size_t>(counters->bytes), stream),
        "to clear memory");
  kernels.launch(variant.split, attention::getItems(Kernel::Split, args),
                 {at, workspace->address, counters->address},
                 attention::kSplitBlocksOfMultiprocessor);
}

bool Attention::reserve(std::unique_ptr<Block> &block, int64_t bytes) {
  if (block && block->bytes >= bytes)
    return false;
  // The old block is in use until all work is done.
  InFlightOperations::synchronize(driver, stream);
  block.reset();
  ++moves;
  block = std::make_unique<Block>(driver, std::max(bytes, minBlockBytes));
  return true;
}

} // namespace tpc::rt::cuda
