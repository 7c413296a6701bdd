//===- Arena.cpp - Stack of memory frames of a step -----------------------===//

#include "core/Arena.h"
#include <algorithm>

namespace tpc::rt {

namespace {
// The first chunk is small, so that ranks with little work use little memory; later chunks double.
constexpr size_t firstChunk = size_t(256) << 10;
} // namespace

Arena::~Arena() {
  for (Chunk &chunk : chunks)
    source.release(chunk.base);
}

bool Arena::addChunk(size_t atLeast) {
  size_t size = std::max({firstChunk, atLeast, reserved()});
  void *base = source.allocate(static_cast<int64_t>(size));
  if (!base && size > atLeast)
    base = source.allocate(static_cast<int64_t>(size = atLeast));
  if (!base)
    return false;
  ++numAllocations;
  chunks.push_back({static_cast<std::byte *>(base), size, 0});
  return true;
}

bool Arena::reserve(size_t bytes) {
  if (bytes == 0 || (chunks.size() == 1 && chunks[0].size >= bytes))
    return true;
  for (Chunk &chunk : chunks)
    source.release(chunk.base);
  chunks.clear();
  current = below = 0;
  return addChunk(bytes);
}

void *Arena::push(int64_t bytes) {
  // Rejects sizes beyond the address space, which are errors of the caller.
  if (bytes < 0 || bytes > (int64_t(1) << 46))
    return nullptr;
  // An empty frame takes one unit of alignment, so that every frame has a unique address.
  size_t size = std::max(alignUp(static_cast<size_t>(bytes)), alignment);
  if (chunks.empty() && !addChunk(size))
    return nullptr;
  while (chunks[current].size - chunks[current].used < size) {
    if (current + 1 == chunks.size() && !addChunk(size))
      return nullptr;
    // Skips a chunk that is too small for this frame; a pop makes it usable again.
    below += chunks[current].used;
    ++current;
  }
  Chunk &chunk = chunks[current];
  void *frame = chunk.base + chunk.used;
  chunk.used += size;
  peakBytes = std::max(peakBytes, below + chunk.used);
  return frame;
}

bool Arena::pop(void *frame) {
  if (chunks.empty())
    return false;
  std::byte *at = static_cast<std::byte *>(frame);
  for (size_t i = current + 1; i-- > 0;) {
    Chunk &chunk = chunks[i];
    if (at < chunk.base || at >= chunk.base + chunk.used)
      continue;
    for (size_t j = i + 1; j <= current; ++j)
      chunks[j].used = 0;
    chunk.used = static_cast<size_t>(at - chunk.base);
    current = i;
    below = 0;
    for (size_t j = 0; j < i; ++j)
      below += chunks[j].used;
    if (below + chunk.used == 0)
      coalesce();
    return true;
  }
  return false;
}

void Arena::clear() {
  for (Chunk &chunk : chunks)
    chunk.used = 0;
  current = below = 0;
  coalesce();
}

void Arena::coalesce() {
  if (chunks.size() <= 1)
    return;
  // Frames of one stack fit into one chunk of the peak size: each is a multiple of the alignment.
  for (Chunk &chunk : chunks)
    source.release(chunk.base);
  chunks.clear();
  current = below = 0;
  // If there is no memory for one chunk now, the next push reports it.
  addChunk(peakBytes);
}

size_t Arena::reserved() const {
  size_t bytes = 0;
  for (const Chunk &chunk : chunks)
    bytes += chunk.size;
  return bytes;
}

size_t Arena::used() const { return chunks.empty() ? 0 : below + chunks[current].used; }

} // namespace tpc::rt
