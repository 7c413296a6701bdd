//===- Attention.cpp - attention on a GPU ---------------------------------===//

#include "cuda/library/Attention.h"
#include "cuda/library/InFlightOperations.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt::cuda {

using attention::Kernel;

Address Attention::place(const tpc_attention_args &args) {
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

void Attention::compute(Kernels &kernels, const tpc_attention_args &args) {
  const tpc_gpu_attention &own = kernels.attentionOf(args);
  if (own.library && fused.compute(args, isRecording))
    return InFlightOperations::add(driver, stream, "attention by cuDNN");
  Address at = place(args);
  if (!attention::splitsKeys(args))
    return kernels.launch(own.tiles, attention::getItems(Kernel::Tiles, args), {at, 0}, stream);
  int64_t bytes = std::max<int64_t>(attention::getWorkspaceBytes(args), 16);
  if (bytes > workspaceBytes) {
    InFlightOperations::synchronize(driver, stream); // the old workspace is in use until all work
                                                     // is done
    workspace.reset();
    ++moves;
    workspace = std::make_unique<Block>(driver, bytes);
    workspaceBytes = bytes;
  }
  for (auto [kernel, place] : {std::pair(Kernel::Split, own.split), {Kernel::Combine, own.combine}})
    if (int64_t items = attention::getItems(kernel, args); items > 0)
      kernels.launch(place, items, {at, workspace->address}, stream);
}

} // namespace tpc::rt::cuda
