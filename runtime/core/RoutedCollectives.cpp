//===- RoutedCollectives.cpp - Exchange of tokens with experts ------------===//
//
// Each member first sends every other member one bit for each row, or for each of the row's weights
// for the receiver's experts. The bits determine the size of the message that follows. Both sides
// know the number of bits, and skip empty messages.
//
// Messages are buffered (Transport::post), two of a pair at most: a member sends data after it has
// received all bits.
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"
#include "core/Transport.h"
#include <algorithm>
#include <cstring>

using namespace tpc::rt;

namespace {

[[noreturn]] void failIn(tpc_context &ctx, CollectiveKind kind, uint32_t axes,
                         const std::string &what) {
  fail(ctx, std::string(spell(kind)) + " over '" + ctx.grid.label(axes) + "': " + what);
}

class Bits {
public:
  Bits() = default;
  explicit Bits(int64_t count) : bytes(static_cast<size_t>((count + 7) / 8)) {}
  void set(int64_t i) { bytes[i / 8] |= uint8_t(1) << i % 8; }
  bool get(int64_t i) const { return bytes[i / 8] >> i % 8 & 1; }
  std::vector<uint8_t> bytes;
};

/// Message of one member to another.
struct Message {
  Bits bits;
  std::vector<float> data;
};

class RoutedExchange {
public:
  RoutedExchange(tpc_context &ctx, CollectiveKind kind, uint32_t axes, int32_t dtype, int64_t n,
                 int64_t inner, int64_t width)
      : ctx(ctx), kind(kind), axes(axes), doing(ctx.activity, spell(kind), axes),
        group(ctx.group(axes)), rowsOfPart(width ? inner / width : 0) {
    if (dtype != TPC_F32)
      failIn(ctx, kind, axes, "the elements must be f32");
    if (!ctx.device->isHost())
      failIn(ctx, kind, axes, "the rows must be in host memory");
    if (n < 0 || inner < 0 || width < 0 || rowsOfPart * width != inner)
      failIn(ctx, kind, axes,
             "rows of " + std::to_string(width) + " elements do not fit into " +
                 std::to_string(inner));
    for (int member = 0; member < group.size(); ++member) {
      Part part = group.part(n, member);
      rows.push_back({part.offset * rowsOfPart, part.size * rowsOfPart});
    }
  }

  /// Sends `sent` to all other members, and returns their messages. `countBits` and `countData`
  /// return the sizes of a member's message.
  template <typename CountBits, typename CountData>
  std::vector<Message> run(const std::vector<Message> &sent, CountBits countBits,
                           CountData countData) {
    std::vector<Message> received(group.size());
    int64_t bytes = 0;
    auto post = [&](int member, const auto &list) {
      int64_t size = std::ssize(list) * static_cast<int64_t>(sizeof(list[0]));
      bytes += size;
      if (size)
        ctx.transport->post(ctx, group.ranks[member], list.data(), size);
    };
    auto take = [&](int member, auto &list) {
      int64_t size = std::ssize(list) * static_cast<int64_t>(sizeof(list[0]));
      if (size)
        ctx.transport->take(ctx, group.ranks[member], list.data(), size);
    };
    forEachPeer([&](int member) { post(member, sent[member].bits.bytes); });
    forEachPeer([&](int member) {
      received[member].bits = Bits(countBits(member));
      take(member, received[member].bits.bytes);
    });
    forEachPeer([&](int member) { post(member, sent[member].data); });
    forEachPeer([&](int member) {
      received[member].data.resize(static_cast<size_t>(countData(member, received[member].bits)));
      take(member, received[member].data);
    });
    if (bytes) {
      ctx.transport->flushPosts(ctx); // all members receive now
      ctx.counters.add(kind, axes, bytes);
    }
    return received;
  }

  template <typename F> void forEachPeer(F f) const {
    for (int member = 0; member < group.size(); ++member)
      if (member != group.index)
        f(member);
  }

  tpc_context &ctx;
  CollectiveKind kind;
  uint32_t axes;
  OperationScope doing;
  const Group &group;
  int64_t rowsOfPart;     // rows of each of the n parts
  std::vector<Part> rows; // of each member
};

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

/// A row of `width` elements: `experts` weights from `column` on, and the token before and after.
struct Row {
  int64_t width, column, experts;

  int64_t tokenSize() const { return width - experts; }
  void copyToken(float *to, const float *row) const {
    std::copy_n(row, column, to);
    std::copy_n(row + column + experts, tokenSize() - column, to + column);
  }
  void placeToken(float *row, const float *token) const {
    std::copy_n(token, column, row);
    std::copy_n(token + column, tokenSize() - column, row + column + experts);
  }
};

} // namespace

extern "C" void tpc_dispatch(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                             void *out, int64_t n, int64_t inner, int64_t width, int64_t column,
                             int64_t experts, const int32_t *split) {
  RoutedExchange exchange(*ctx, CollectiveKind::Dispatch, axes, dtype, n, inner, width);
  if (column < 0 || experts < 0 || experts > width - column)
    failIn(*ctx, exchange.kind, axes, "there are no columns of experts");
  const Group &group = exchange.group;
  Row row{width, column, experts};
  auto *from = static_cast<const float *>(in);
  auto *to = static_cast<float *>(out);
  std::vector<Part> owned;
  for (int rank : group.ranks)
    owned.push_back(expertsOf(*ctx, rank, experts, split));
  Part mine = owned[group.index], own = exchange.rows[group.index];

  // The rows of the experts of a member: bits of its weights; tokens, each with its weights.
  std::vector<Message> sent(group.size());
  for (int member = 0; member < group.size(); ++member) {
    Part part = owned[member];
    Message &message = sent[member];
    message.bits = Bits(own.size * part.size);
    for (int64_t r = 0; r < own.size; ++r) {
      const float *weights = from + r * width + column + part.offset;
      if (std::all_of(weights, weights + part.size, [](float w) { return w == 0; }))
        continue;
      size_t at = message.data.size();
      message.data.resize(at + static_cast<size_t>(row.tokenSize()));
      row.copyToken(message.data.data() + at, from + r * width);
      for (int64_t e = 0; e < part.size; ++e)
        if (weights[e] != 0) {
          message.bits.set(r * part.size + e);
          message.data.push_back(weights[e]);
        }
    }
  }
  auto hasRow = [&](const Bits &bits, int64_t r) {
    for (int64_t e = 0; e < mine.size; ++e)
      if (bits.get(r * mine.size + e))
        return true;
    return false;
  };
  std::vector<Message> received = exchange.run(
      sent, [&](int member) { return exchange.rows[member].size * mine.size; },
      [&](int member, const Bits &bits) {
        int64_t count = 0;
        for (int64_t r = 0; r < exchange.rows[member].size; ++r)
          count += hasRow(bits, r) ? row.tokenSize() : 0;
        for (int64_t i = 0; i < exchange.rows[member].size * mine.size; ++i)
          count += bits.get(i);
        return count;
      });
  received[group.index] = std::move(sent[group.index]);
  for (int member = 0; member < group.size(); ++member) {
    const auto &[bits, data] = received[member];
    const float *next = data.data();
    for (int64_t r = 0; r < exchange.rows[member].size; ++r) {
      float *target = to + (exchange.rows[member].offset + r) * width;
      std::fill_n(target, width, 0.0f);
      if (!hasRow(bits, r))
        continue;
      row.placeToken(target, next);
      next += row.tokenSize();
      for (int64_t e = 0; e < mine.size; ++e)
        if (bits.get(r * mine.size + e))
          target[column + mine.offset + e] = *next++;
    }
  }
}

extern "C" void tpc_combine(tpc_context *ctx, uint32_t axes, int32_t dtype, const void *in,
                            void *out, int64_t n, int64_t inner, int64_t width) {
  RoutedExchange exchange(*ctx, CollectiveKind::Combine, axes, dtype, n, inner, width);
  const Group &group = exchange.group;
  auto *from = static_cast<const float *>(in);
  auto *to = static_cast<float *>(out);
  std::vector<Message> sent(group.size());
  for (int member = 0; member < group.size(); ++member) {
    Part rows = exchange.rows[member];
    Message &message = sent[member];
    message.bits = Bits(rows.size);
    for (int64_t r = 0; r < rows.size; ++r) {
      const float *row = from + (rows.offset + r) * width;
      if (std::all_of(row, row + width, [](float x) { return x == 0; }))
        continue;
      message.bits.set(r);
      message.data.insert(message.data.end(), row, row + width);
    }
  }
  int64_t own = exchange.rows[group.index].size;
  std::vector<Message> received = exchange.run(
      sent, [&](int) { return own; },
      [&](int, const Bits &bits) {
        int64_t count = 0;
        for (int64_t r = 0; r < own; ++r)
          count += bits.get(r) ? width : 0;
        return count;
      });
  received[group.index] = std::move(sent[group.index]);
  std::fill_n(to, own * width, 0.0f);
  for (const auto &[bits, data] : received) { // in the order of ranks
    const float *next = data.data();
    for (int64_t r = 0; r < own; ++r)
      if (bits.get(r))
        for (int64_t i = 0; i < width; ++i)
          to[r * width + i] += *next++;
  }
}
