//===- RoutedCollectives.cpp - Exchange of tokens with experts ------------===//
//
// Members exchange the rows of RoutedRows.h in two rounds of messages: bits, whose sizes all
// members know, then data. A device computes the sizes of the data from the bits; the host then
// reads them, because transports need them. All memory is one block, with room for all rows in each
// message.
//
// Over host memory, messages are posted, two of a pair at most: a member sends data after it has
// received all bits.
//
//===----------------------------------------------------------------------===//

#include "core/Access.h"
#include "core/DType.h"
#include "core/RoutedRows.h"
#include <algorithm>
#include <cstring>
#include <limits>

using namespace tpc::rt;

namespace {

[[noreturn]] void failIn(tpc_context &ctx, CollectiveKind kind, uint32_t axes,
                         const std::string &what) {
  fail(ctx, std::string(spell(kind)) + " over '" + ctx.grid.label(axes) + "': " + what);
}

/// Returns the experts of a rank, split over the axes one after the other.
Part expertsOf(const tpc_context &ctx, int rank, int64_t experts, const int32_t *split) {
  std::vector<int64_t> at = ctx.grid.coordinatesOf(rank);
  Part part{0, experts};
  for (; *split >= 0; ++split) {
    Part next = partOf(part.size, ctx.grid.axes()[*split].size, at[*split]);
    part = {part.offset + next.offset, next.size};
  }
  return part;
}

class RoutedExchange {
public:
  RoutedExchange(tpc_context &ctx, CollectiveKind kind, uint32_t axes, int32_t dtype, int64_t n,
                 int64_t inner, int64_t width, int64_t column, int64_t allExperts)
      : ctx(ctx), kind(kind), axes(axes), group(ctx.group(axes)) {
    if (dtype != TPC_F32 && dtype != TPC_F16 && dtype != TPC_BF16)
      failIn(ctx, kind, axes, "the elements must be f32, f16 or bf16");
    int64_t rowsOfPart = width > 0 ? inner / width : 0;
    if (n < 0 || inner < 0 || width < 0 || rowsOfPart * width != inner)
      failIn(ctx, kind, axes,
             "rows of " + std::to_string(width) + " elements do not fit into " +
                 std::to_string(inner));
    if (column < 0 || allExperts < 0 || allExperts > width - column)
      failIn(ctx, kind, axes, "there are no columns of experts");
    rows.dtype = dtype;
    rows.combines = kind == CollectiveKind::Combine;
    rows.width = width;
    rows.column = column;
    rows.experts = allExperts;
    for (int member = 0; member < group.size(); ++member) {
      Part part = group.part(n, member);
      rowsOf.push_back({part.offset * rowsOfPart, part.size * rowsOfPart});
      numRows += part.size * rowsOfPart;
    }
  }

  int64_t ownRows() const { return rowsOf[group.index].size; }
  int64_t allRows() const { return numRows; }
  /// `experts`: those of each member; empty in a combine.
  void run(const void *in, int64_t inRows, void *out, int64_t outRows,
           const std::vector<Part> &experts);

private:
  int64_t element() const { return sizeOf(rows.dtype); }
  int numMembers() const { return group.size(); }
  const RoutedPart &received(int member) const { return parts[member]; }
  const RoutedPart &sent(int member) const { return parts[numMembers() + member]; }

  void addPart(int64_t firstRow, int64_t count, Part weights);
  void makeParts(const std::vector<Part> &experts);
  RoutedRows sentRows() const;
  RoutedRows receivedRows() const;
  void checkSizes(const int32_t *sizes) const;
  template <typename Sizes>
  void exchange(Transport &transport, std::byte *from, Sizes offsetAndBytes);

  tpc_context &ctx;
  const CollectiveKind kind;
  const uint32_t axes;
  const Group &group;
  RoutedRows rows{};
  std::vector<Part> rowsOf; // of each member's tokens
  int64_t numRows = 0;

  // Parts that are received, by member, then those that are sent. This rank's part in both has the
  // same bits and data.
  std::vector<RoutedPart> parts;
  int64_t bitBytes = 0, numPlaces = 0, numElements = 0;
  int64_t bytesSent = 0;
};

constexpr int64_t alignment = 256; // of the buffers in the block
int64_t alignUp(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

void RoutedExchange::addPart(int64_t firstRow, int64_t count, Part weights) {
  RoutedPart part{firstRow, count, weights.offset, weights.size, bitBytes, numPlaces, numElements};
  int64_t bits = rows.bitsOf(part), elements = count * (rows.width - rows.experts + weights.size);
  if (std::max(bits, elements) > std::numeric_limits<int32_t>::max() / 2)
    failIn(ctx, kind, axes, "a rank has too many tokens: " + std::to_string(count));
  rows.maxRows = std::max(rows.maxRows, count);
  rows.maxBits = std::max(rows.maxBits, bits);
  bitBytes += (bits + 31) / 32 * 4;
  numPlaces += count;
  numElements += (elements + 7) / 8 * 8; // messages begin at multiples of 16 bytes
  parts.push_back(part);
}

void RoutedExchange::makeParts(const std::vector<Part> &experts) {
  const int own = group.index;
  for (int member = 0; member < numMembers(); ++member)
    if (rows.combines)
      addPart(0, rowsOf[own].size, {});
    else
      addPart(rowsOf[member].offset, rowsOf[member].size, experts[own]);
  for (int member = 0; member < numMembers(); ++member) {
    if (rows.combines)
      addPart(rowsOf[member].offset, rowsOf[member].size, {});
    else
      addPart(0, rowsOf[own].size, experts[member]);
    if (member == own) {
      parts.back().bits = received(own).bits;
      parts.back().data = received(own).data;
    }
  }
}

RoutedRows RoutedExchange::receivedRows() const {
  RoutedRows part = rows;
  part.numParts = numMembers();
  return part;
}

RoutedRows RoutedExchange::sentRows() const {
  RoutedRows part = receivedRows();
  part.parts += numMembers();
  part.sizes += numMembers();
  return part;
}

/// Messages of sizes out of bounds would overwrite other memory.
void RoutedExchange::checkSizes(const int32_t *sizes) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t most = parts[i].rows * (rows.width - rows.experts + parts[i].weights);
    if (sizes[i] < 0 || sizes[i] > most)
      failIn(ctx, kind, axes,
             "internal error: a message of " + std::to_string(sizes[i]) + " elements, at most " +
                 std::to_string(most) + " are possible");
  }
}

template <typename Sizes>
void RoutedExchange::exchange(Transport &transport, std::byte *from, Sizes offsetAndBytes) {
  if (numMembers() == 1)
    return;
  std::vector<Transport::GroupMessage> sends, receives;
  for (int member = 0; member < numMembers(); ++member)
    if (member != group.index) {
      auto [sendAt, sendBytes] = offsetAndBytes(numMembers() + member);
      auto [receiveAt, receiveBytes] = offsetAndBytes(member);
      sends.push_back({member, sendAt, sendBytes});
      receives.push_back({member, receiveAt, receiveBytes});
      bytesSent += sendBytes;
    }
  transport.exchangeMessages(ctx, group, spell(kind), from, sends, receives);
}

void RoutedExchange::run(const void *in, int64_t inRows, void *out, int64_t outRows,
                         const std::vector<Part> &experts) {
  if (numRows == 0)
    return;
  makeParts(experts);
  Transport &transport = *ctx.transport;
  const bool onDevice = transport.isOnDevice();
  Transfer transfer(ctx, spell(kind), axes);
  const int64_t rowBytes = rows.width * element();
  auto *from = const_cast<void *>(transfer.read(in, inRows * rowBytes));
  void *to = transfer.write(out, outRows * rowBytes);

  // Bits, places and sizes, then data.
  const int64_t placesAt = alignUp(bitBytes), sizesAt = alignUp(placesAt + numPlaces * 4),
                dataAt = alignUp(sizesAt + std::ssize(parts) * 4),
                bytes = dataAt + numElements * element();
  Arena &arena = onDevice ? ctx.arena : ctx.staging();
  auto *block = static_cast<std::byte *>(arena.push(bytes));
  if (!block)
    failIn(ctx, kind, axes, "out of memory: " + std::to_string(bytes) + " bytes for messages");
  if (onDevice)
    ctx.device->discard(block, bytes);
  const auto tableBytes = static_cast<int64_t>(parts.size() * sizeof(RoutedPart));
  const void *table = onDevice ? ctx.device->share(parts.data(), tableBytes) : parts.data();
  rows.parts = static_cast<const RoutedPart *>(table);
  rows.bits = reinterpret_cast<uint8_t *>(block);
  rows.places = reinterpret_cast<int32_t *>(block + placesAt);
  rows.sizes = reinterpret_cast<int32_t *>(block + sizesAt);
  rows.data = block + dataAt;
  RoutedRows all = receivedRows();
  all.numParts = std::ssize(parts);
  auto work = [&](RoutedWork kind, const RoutedRows &which, void *tensor) {
    if (onDevice)
      ctx.device->exchangeRows(kind, which, tensor);
    else
      exchangeRowsOnHost(kind, which, tensor);
  };
  if (onDevice || from || to) { // a dry run has no tensors in host memory
    work(RoutedWork::Select, sentRows(), from);
    exchange(transport, block,
             [&](int i) { return std::pair(parts[i].bits, (rows.bitsOf(parts[i]) + 7) / 8); });
    work(RoutedWork::Locate, all, nullptr);
    work(RoutedWork::Pack, sentRows(), from);
    std::vector<int32_t> sizes(parts.size());
    const auto sizeBytes = static_cast<int64_t>(sizes.size() * sizeof(int32_t));
    if (onDevice) {
      Reading reading(*ctx.device, rows.sizes, sizeBytes);
      std::memcpy(sizes.data(), reading.data, static_cast<size_t>(sizeBytes));
    } else {
      std::memcpy(sizes.data(), rows.sizes, static_cast<size_t>(sizeBytes));
    }
    checkSizes(sizes.data());
    exchange(transport, block + dataAt,
             [&](int i) { return std::pair(parts[i].data * element(), sizes[i] * element()); });
    work(RoutedWork::Unpack, receivedRows(), to);
    if (bytesSent) {
      if (!onDevice)
        transport.flushPosts(ctx); // all members receive now
      ctx.counters.add(kind, axes, bytesSent);
    }
  }
  if (onDevice)
    ctx.device->unshare(table);
  arena.pop(block);
}

} // namespace

extern "C" void tpc_dispatch(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                             void *out, int64_t n, int64_t inner, int64_t width, int64_t column,
                             int64_t experts, const int32_t *split) {
  RoutedExchange exchange(*ctx, CollectiveKind::Dispatch, axes, dtype, n, inner, width, column,
                          experts);
  std::vector<Part> owned;
  for (int rank : ctx->group(axes).ranks)
    owned.push_back(expertsOf(*ctx, rank, experts, split));
  exchange.run(in, exchange.ownRows(), out, exchange.allRows(), owned);
}

extern "C" void tpc_combine(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                            void *out, int64_t n, int64_t inner, int64_t width) {
  RoutedExchange exchange(*ctx, CollectiveKind::Combine, axes, dtype, n, inner, width, width, 0);
  exchange.run(in, exchange.allRows(), out, exchange.ownRows(), {});
}
