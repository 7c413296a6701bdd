//===- Outputs.cpp - Assembly of outputs on world rank 0 ------------------===//

#include "program/Outputs.h"
#include "core/Transport.h"
#include "program/Error.h"
#include "program/Inputs.h"
#include "program/ScatterBlock.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt {
namespace {

int64_t product(const int64_t *sizes, int32_t rank) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d)
    count *= sizes[d];
  return count;
}

/// Maximum number of threads that copy a block from a device.
constexpr int maxThreads = 8;

/// Packs the selected entries of a block with copies.
std::vector<std::byte> select(const std::byte *from, int32_t rank, const int64_t *size,
                              const Selection &selection, int64_t elementBytes) {
  int64_t outer = product(size, selection.dim), count = size[selection.dim];
  int64_t run = product(size + selection.dim + 1, rank - selection.dim - 1) * elementBytes;
  std::vector<std::byte> packed(static_cast<size_t>(outer * count * run));
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < count; ++j)
      std::memcpy(packed.data() + (i * count + j) * run,
                  from + (i * selection.entries + selection.first + j * selection.step) * run,
                  static_cast<size_t>(run));
  return packed;
}

} // namespace

void OutputAssembler::prepare(const Manifest &program, const SymbolValues &symbols,
                              tpc_context &firstLocal) {
  manifest = &program;
  holdsRankZero = firstLocal.rank == 0;
  outputs.resize(program.outputs.size());
  isPinned.resize(program.outputs.size());
  Device &device = *firstLocal.device;
  if (!memory)
    memory.emplace([&device](void *host, int64_t bytes) { return device.pin(host, bytes); },
                   [&device](void *host) { device.unpin(host); });
  outputBytes.assign(program.outputs.size(), 0);
  delivered = std::make_unique<std::atomic<int64_t>[]>(program.outputs.size());
  contributed.assign(program.grid.numRanks(), std::vector<bool>(program.outputs.size(), false));
  pending.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Shape shape = shapeOf(program.outputs[i], symbols);
    outputBytes[i] = *byteCount(shape, program.outputs[i].dtype);
    if (!holdsRankZero)
      continue;
    outputs[i].dtype = program.outputs[i].dtype;
    outputs[i].shape = shape;
    Buffer &data = outputs[i].data;
    bool fits = data.data() && data.size() == outputBytes[i];
    if (fits && (isPinned[i] || device.isHost()))
      continue;
    data = {}; // may be reused
    data = memory->allocate(outputBytes[i]);
    isPinned[i] = memory->isPinned(data);
  }
}

void OutputAssembler::take(tpc_context &ctx, int32_t index, const void *data, int32_t rank,
                           const int64_t *global, const int64_t *offset, const int64_t *size,
                           const Selection *selection) {
  auto refuse = [&](const std::string &what) {
    fail(ctx, "internal error: output " + std::to_string(index) + ": " + what);
  };
  if (index < 0 || static_cast<size_t>(index) >= outputBytes.size())
    refuse("there is no such output");
  if (rank < 0 || rank > maxBlockRank)
    refuse("a block of " + std::to_string(rank) + " dimensions");
  for (int32_t d = 0; d < rank; ++d)
    if (global[d] < 0 || offset[d] < 0 || size[d] < 0 || size[d] > global[d] - offset[d])
      refuse("a block of " + std::to_string(size[d]) + " from " + std::to_string(offset[d]) +
             " on exceeds dimension " + std::to_string(d) + ", of size " +
             std::to_string(global[d]));
  int64_t elementBytes = dtypeBytes(manifest->outputs[index].dtype);
  if (product(global, rank) * elementBytes != outputBytes[index])
    refuse("a block of another tensor");
  int64_t bytes = product(size, rank) * elementBytes;
  if (bytes == 0)
    return;
  int64_t readBytes = selection ? bytes / size[selection->dim] * selection->entries : bytes;
  Block block{index, rank, bytes, {}, {}};
  for (int32_t d = 0; d < rank; ++d) {
    block.bounds[d] = global[d];
    block.bounds[rank + d] = offset[d];
    block.bounds[2 * rank + d] = size[d];
  }
  if (selection)
    block.selection = *selection;
  Device::Destination destination;
  if (std::optional<int64_t> begin = offsetOf(block))
    destination = [this, index, begin = *begin]() -> std::byte * {
      auto at = static_cast<size_t>(index);
      return holdsRankZero && isPinned[at] ? outputs[at].data.data() + begin : nullptr;
    };
  ctx.device->deliver(
      data, readBytes, [this, &ctx, block](const std::byte *from) { arrive(ctx, block, from); },
      std::move(destination));
}

std::optional<int64_t> OutputAssembler::offsetOf(const Block &block) const {
  const int64_t *global = block.bounds, *offset = global + block.rank, *size = offset + block.rank;
  if (block.selection)
    return std::nullopt;
  int64_t at = 0, elements = 1;
  for (int32_t d = 0; d < block.rank; ++d) {
    if (elements > 1 && size[d] != global[d])
      return std::nullopt;
    at = at * global[d] + offset[d];
    elements *= size[d];
  }
  return at * dtypeBytes(manifest->outputs[static_cast<size_t>(block.index)].dtype);
}

void OutputAssembler::arrive(tpc_context &ctx, const Block &block, const std::byte *from) {
  contributed[ctx.rank][block.index] = true;
  const int64_t *global = block.bounds, *offset = global + block.rank, *size = offset + block.rank;
  std::vector<std::byte> selected;
  if (block.selection) {
    selected = select(from, block.rank, size, *block.selection,
                      dtypeBytes(manifest->outputs[block.index].dtype));
    from = selected.data();
  }
  if (holdsRankZero) {
    copyBlock(ctx, block.index, from, block.rank, global, offset, size);
    return;
  }
  auto append = [&](const void *data, size_t count) {
    auto *begin = static_cast<const std::byte *>(data);
    pending.insert(pending.end(), begin, begin + count);
  };
  int64_t header[2] = {block.index, block.rank};
  append(header, sizeof(header));
  append(block.bounds, static_cast<size_t>(3 * block.rank) * sizeof(int64_t));
  append(from, static_cast<size_t>(block.bytes));
}

void OutputAssembler::copyBlock(tpc_context &ctx, int32_t index, const std::byte *data,
                                int32_t rank, const int64_t *global, const int64_t *offset,
                                const int64_t *size) {
  Tensor &tensor = outputs[index];
  int threads = ctx.device->isHost() ? 1 : std::min(ctx.threadsPerRank, maxThreads);
  scatterBlock(tensor.data.data(), data, rank, global, offset, size, dtypeBytes(tensor.dtype),
               {threads});
  delivered[index].fetch_add(product(size, rank), std::memory_order_relaxed);
}

void OutputAssembler::copyBlocks(tpc_context &ctx, const std::vector<std::byte> &blocks) {
  for (size_t at = 0; at < blocks.size();) {
    int64_t header[2 + 3 * maxBlockRank];
    std::memcpy(header, blocks.data() + at, 2 * sizeof(int64_t));
    int32_t index = static_cast<int32_t>(header[0]), rank = static_cast<int32_t>(header[1]);
    std::memcpy(header, blocks.data() + at, (2 + 3 * rank) * sizeof(int64_t));
    at += (2 + 3 * rank) * sizeof(int64_t);
    const int64_t *global = header + 2, *offset = global + rank, *size = offset + rank;
    copyBlock(ctx, index, blocks.data() + at, rank, global, offset, size);
    at += product(size, rank) * dtypeBytes(outputs[index].dtype);
  }
}

void OutputAssembler::collect(tpc_context &ctx) {
  for (size_t i = 0; i < outputBytes.size(); ++i)
    if (contributed[ctx.rank][i]) {
      ctx.counters.add(CollectiveKind::Gather, outputAxes, outputBytes[i]);
      contributed[ctx.rank][i] = false;
    }
  if (ctx.worldSize() == 1 || ctx.transport->sharesMemory())
    return;
  ctx.transport->gatherBytes(ctx, pending.data(), static_cast<int64_t>(pending.size()), gathered);
  pending.clear();
  if (holdsRankZero)
    for (const auto &blocks : gathered)
      copyBlocks(ctx, blocks);
}

std::string OutputAssembler::problem() {
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t arrived = delivered[i].exchange(0), count = outputs[i].count();
    if (holdsRankZero && arrived != count)
      return "internal error: " + std::to_string(arrived) + " of " + std::to_string(count) +
             " elements of output '" + manifest->outputs[i].name + "' were delivered";
  }
  return "";
}

} // namespace tpc::rt

extern "C" void tpc_output(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                           const int64_t *global, const int64_t *offset, const int64_t *size) {
  if (ctx->outputs)
    ctx->outputs->take(*ctx, index, data, rank, global, offset, size, nullptr);
}

extern "C" void tpc_output_every(tpc_context *ctx, int32_t index, const void *data, int32_t rank,
                                 const int64_t *global, const int64_t *offset, const int64_t *size,
                                 int32_t dim, int64_t entries, int64_t first, int64_t step) {
  if (!ctx->outputs)
    return;
  if (dim < 0 || dim >= rank || step < 1 || first < 0 ||
      (size[dim] > 0 && first + (size[dim] - 1) * step >= entries))
    tpc::rt::fail(*ctx, "internal error: output " + std::to_string(index) +
                            ": the rank does not have these copies");
  tpc::rt::Selection selection{dim, entries, first, step};
  ctx->outputs->take(*ctx, index, data, rank, global, offset, size, &selection);
}

extern "C" const void *tpc_input(tpc_context *ctx, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= ctx->data.inputs.size())
    tpc::rt::fail(*ctx, "internal error: there is no input " + std::to_string(index));
  return ctx->data.inputs[index];
}

extern "C" const void *tpc_parameter(tpc_context *ctx, int32_t index) {
  const void *data = index < 0 || static_cast<size_t>(index) >= ctx->data.parameters.size()
                         ? nullptr
                         : ctx->data.parameters[index];
  if (!data)
    tpc::rt::fail(*ctx, "internal error: parameter " + std::to_string(index) +
                            " is not on this rank, or is packed");
  return data;
}
