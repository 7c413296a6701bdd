//===- RunCommunication.cpp - Interpretation of collectives on buffers ----===//
//
// The owners of elements are derived from lists of indices, as in the interpreter of tensor
// programs.
//
//===----------------------------------------------------------------------===//

#include "RunBuffers.h"

#include "tpc/Buffer/Async.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::countElements;
using interpret::DimFactor;

static SmallVector<StringRef> getAxes(ArrayAttr axes) {
  return llvm::to_vector(axes.getAsValueRange<StringAttr>());
}
static SmallVector<StringAttr> getAxisAttrs(Attribute axes) {
  return llvm::to_vector(cast<ArrayAttr>(axes).getAsRange<StringAttr>());
}

/// Returns the slice of n elements on a rank. Axes split one after the other, beginning with the
/// last axis in the order of the grid.
static std::pair<int64_t, int64_t> getSlice(BufferMachine &m, ArrayRef<StringRef> axes, int64_t n,
                                            int rank) {
  int64_t begin = 0;
  for (StringAttr axis : llvm::reverse(m.getGrid().getOrder())) {
    if (!llvm::is_contained(axes, axis.getValue()))
      continue;
    int64_t parts = m.getGrid().getAxisSize(axis.getValue());
    int64_t c = m.coordinate(axis.getValue(), rank);
    begin += ::tpc::shardBegin(n, parts, c);
    n = ::tpc::shardSize(n, parts, c);
  }
  return {begin, n};
}

/// Reduces the values of all members.
static FailureOr<Numbers> reduce(Operation *op, BufferMachine &m, Frame &frame, Value from,
                                 Type type, ReductionKind kind, Ranks group, int64_t count) {
  FailureOr<Numbers> all = m.read(op, frame, from, group.front(), count);
  if (failed(all))
    return failure();
  bool isFloat = isa<FloatType>(type);
  for (int rank : group.drop_front()) {
    FailureOr<Numbers> operand = m.read(op, frame, from, rank, count);
    if (failed(operand))
      return failure();
    for (auto [x, y] : llvm::zip_equal(*all, *operand)) {
      if (isFloat)
        x.f = kind == ReductionKind::Sum   ? x.f + y.f
              : kind == ReductionKind::Max ? (std::isnan(y.f) || y.f > x.f ? y.f : x.f)
                                           : (std::isnan(y.f) || y.f < x.f ? y.f : x.f);
      else
        x.i = kind == ReductionKind::Sum   ? int64_t(uint64_t(x.i) + uint64_t(y.i))
              : kind == ReductionKind::Max ? std::max(x.i, y.i)
                                           : std::min(x.i, y.i);
    }
  }
  return all;
}

/// Returns the values of the expressions, which must be equal on all members.
static FailureOr<SmallVector<int64_t>> evaluateSame(Operation *op, BufferMachine &m, Ranks group,
                                                    ArrayRef<buffer::ExprAttr> exprs) {
  SmallVector<int64_t> values;
  for (buffer::ExprAttr expr : exprs) {
    values.push_back(m.evaluate(expr, group.front()));
    for (int rank : group)
      if (int64_t value = m.evaluate(expr, rank); value != values.back())
        return m.fail(op, rank) << "has " << value << ", but " << m.describe(group.front())
                                << " has " << values.back();
  }
  return values;
}

/// Returns a function that returns the coordinate of a rank on an axis.
static auto getCoordinates(BufferMachine &m, int rank) {
  return [&m, rank](StringAttr axis) { return m.coordinate(axis.getValue(), rank); };
}

static Type getElement(BufferMachine &m, Frame &frame, Value buffer, int rank) {
  return m.get(frame, buffer, rank).view.type;
}

/// Writes the same numbers to the buffer of every member.
static LogicalResult writeAll(Operation *op, BufferMachine &m, Frame &frame, Value to, Ranks group,
                              const Numbers &numbers) {
  for (int rank : group)
    if (failed(m.write(op, frame, to, rank, numbers)))
      return failure();
  return success();
}

/// Writes the reduced operand of `call` to the results of all members.
template <typename CallT>
static LogicalResult allReduce(Operation *op, BufferMachine &m, Frame &frame, Ranks group,
                               CallT call) {
  auto all = reduce(op, m, frame, call.getFrom(), getElement(m, frame, call.getFrom(), group[0]),
                    call.getKind(), group, m.evaluate(call.getCount(), group[0]));
  if (failed(all))
    return failure();
  return writeAll(op, m, frame, call.getTo(), group, *all);
}

/// An array of [outer, n, inner] numbers whose dimension n is split over ranks.
struct Parts {
  SmallVector<StringRef> axes;
  int64_t outer, n, inner;

  int64_t count() const { return outer * n * inner; }
};

/// Returns the array whose parts are in the members' `from` buffers.
static FailureOr<Numbers> gather(Operation *op, BufferMachine &m, Frame &frame, Value from,
                                 const Parts &parts, Ranks group, bool mayBeUnspecified) {
  auto [axes, outer, n, inner] = parts;
  Numbers whole(parts.count());
  for (int rank : group) {
    auto [begin, size] = getSlice(m, axes, n, rank);
    auto part = m.read(op, frame, from, rank, outer * size * inner, mayBeUnspecified);
    if (failed(part))
      return failure();
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(part->begin() + o * size * inner, size * inner,
                  whole.begin() + (o * n + begin) * inner);
  }
  return whole;
}

/// Adds the operands of all members, and writes to each its part of the result.
template <typename CallT>
static LogicalResult reduceScatter(CallT call, BufferMachine &m, Frame &frame, const Parts &parts,
                                   ReductionKind kind, Ranks group) {
  auto [axes, outer, n, inner] = parts;
  auto all = reduce(call, m, frame, call.getFrom(), getElement(m, frame, call.getFrom(), group[0]),
                    kind, group, parts.count());
  if (failed(all))
    return failure();
  for (int rank : group) {
    auto [begin, size] = getSlice(m, axes, n, rank);
    Numbers part;
    for (int64_t o = 0; o < outer; ++o)
      part.insert(part.end(), all->begin() + (o * n + begin) * inner,
                  all->begin() + (o * n + begin + size) * inner);
    if (failed(m.write(call, frame, call.getTo(), rank, part)))
      return failure();
  }
  return success();
}

namespace {
struct AllReduceRun : RunModel<AllReduceRun, buffer::AllReduceOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AllReduceOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      if (failed(evaluateSame(op, m, group, op.getCount())))
        return failure();
      return allReduce(op, m, frame, group, op);
    });
  }
};

/// A started operation reads its operand and writes its result as late as possible, at the wait. A
/// program that overwrites the operand, or reads the result, in between gets other numbers.
struct AllReduceStartRun : RunModel<AllReduceStartRun, buffer::AllReduceStartOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AllReduceStartOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      return success(succeeded(evaluateSame(op, m, group, op.getCount())));
    });
  }
};

struct WaitRun : RunModel<WaitRun, buffer::WaitOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::WaitOp>(base).getToken().getDefiningOp<buffer::AllReduceStartOp>();
    return m.forEachGroup(op, frame, getAxes(op.getAxes()),
                          [&](Ranks group) { return allReduce(op, m, frame, group, op); });
  }
};

/// Returns the sizes of a collective, which must be equal on all members.
template <typename OpT> static FailureOr<Parts> getParts(OpT op, BufferMachine &m, Ranks group) {
  auto sizes = evaluateSame(op, m, group, {op.getOuter(), op.getN(), op.getInner()});
  if (failed(sizes))
    return failure();
  return Parts{getAxes(op.getAxes()), (*sizes)[0], (*sizes)[1], (*sizes)[2]};
}

struct AllGatherRun : RunModel<AllGatherRun, buffer::AllGatherOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AllGatherOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      auto parts = getParts(op, m, group);
      if (failed(parts))
        return failure();
      auto whole = gather(op, m, frame, op.getFrom(), *parts, group, /*mayBeUnspecified=*/true);
      if (failed(whole))
        return failure();
      return writeAll(op, m, frame, op.getTo(), group, *whole);
    });
  }
};

struct ReduceScatterRun : RunModel<ReduceScatterRun, buffer::ReduceScatterOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::ReduceScatterOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      auto parts = getParts(op, m, group);
      return failed(parts) ? failure() : reduceScatter(op, m, frame, *parts, op.getKind(), group);
    });
  }
};

/// Gathers all rows. Clears weights of other ranks' experts, and rows without another weight.
struct DispatchRun : RunModel<DispatchRun, buffer::DispatchOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::DispatchOp>(base);
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    return m.forEachGroup(op, frame, axes, [&](Ranks group) -> LogicalResult {
      auto sizes = evaluateSame(
          op, m, group, {op.getN(), op.getInner(), op.getWidth(), op.getColumn(), op.getExperts()});
      if (failed(sizes))
        return failure();
      int64_t n = (*sizes)[0], inner = (*sizes)[1], width = (*sizes)[2], column = (*sizes)[3];
      int64_t experts = (*sizes)[4];
      if (width < 1 || inner % width != 0 || column < 0 || column + experts > width)
        return m.fail(op, group[0]) << "its columns of experts are outside of the rows";
      auto whole = gather(op, m, frame, op.getFrom(), {axes, 1, n, inner}, group,
                          /*mayBeUnspecified=*/false);
      if (failed(whole))
        return failure();
      for (int rank : group) {
        std::vector<int64_t> local =
            interpret::getIndices(DimFactor{experts, getAxisAttrs(op.getSplit())}, {}, m.getGrid(),
                                  getCoordinates(m, rank));
        Numbers rows(whole->size(), number(0));
        for (int64_t row = 0; row < n * inner; row += width) {
          if (llvm::all_of(local, [&](int64_t e) { return (*whole)[row + column + e].f == 0; }))
            continue;
          std::copy_n(whole->begin() + row, width, rows.begin() + row);
          std::fill_n(rows.begin() + row + column, experts, number(0));
          for (int64_t e : local)
            rows[row + column + e] = (*whole)[row + column + e];
        }
        if (failed(m.write(op, frame, op.getTo(), rank, rows)))
          return failure();
      }
      return success();
    });
  }
};

struct CombineRun : RunModel<CombineRun, buffer::CombineOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::CombineOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      auto sizes = evaluateSame(op, m, group, {op.getN(), op.getInner(), op.getWidth()});
      if (failed(sizes))
        return failure();
      Parts parts = {getAxes(op.getAxes()), 1, (*sizes)[0], (*sizes)[1]};
      return reduceScatter(op, m, frame, parts, ReductionKind::Sum, group);
    });
  }
};

struct BroadcastRun : RunModel<BroadcastRun, buffer::BroadcastOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::BroadcastOp>(base);
    return m.forEachGroup(op, frame, getAxes(op.getAxes()), [&](Ranks group) -> LogicalResult {
      if (op.getRoot() >= group.size())
        return m.fail(op, group[0])
               << "its root " << op.getRoot() << " is outside of a group of " << group.size();
      if (failed(evaluateSame(op, m, group, op.getCount())))
        return failure();
      int root = group[op.getRoot()];
      auto numbers = m.read(op, frame, op.getData(), root, m.evaluate(op.getCount(), root),
                            /*mayBeUnspecified=*/true);
      if (failed(numbers))
        return failure();
      return writeAll(op, m, frame, op.getData(), group, *numbers);
    });
  }
};

//===----------------------------------------------------------------------===//
// Movement collectives: each member's global indices before and after the op
//===----------------------------------------------------------------------===//

/// Global size of each dimension, and a rank's global indices.
struct Moved {
  interpret::Shape shape;
  std::function<interpret::Indices(int rank)> before, after;
  /// Maps an index after the move to its source.
  std::function<void(interpret::Shape &index)> source = [](interpret::Shape &) {};
};

LogicalResult move(Operation *op, BufferMachine &m, Frame &frame, Ranks group, Value from, Value to,
                   const Moved &moved) {
  Numbers whole(countElements(moved.shape));
  std::vector<bool> known(whole.size());
  auto forEach = [&](const interpret::Indices &indices,
                     llvm::function_ref<void(interpret::Shape)> f) {
    interpret::Shape shape;
    for (const auto &list : indices)
      shape.push_back(list.size());
    interpret::forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      interpret::Shape at;
      for (size_t d = 0; d < index.size(); ++d)
        at.push_back(indices[d][index[d]]);
      f(at);
    });
    return countElements(shape);
  };
  for (int rank : group) {
    SmallVector<int64_t> offsets;
    forEach(moved.before(rank), [&](const interpret::Shape &at) {
      offsets.push_back(interpret::linearize(at, moved.shape));
    });
    auto part = m.read(op, frame, from, rank, offsets.size(), /*mayBeUnspecified=*/true);
    if (failed(part))
      return failure();
    for (auto [offset, x] : llvm::zip_equal(offsets, *part)) {
      whole[offset] = x;
      known[offset] = true;
    }
  }
  for (int rank : group) {
    Numbers part;
    bool missing = false;
    forEach(moved.after(rank), [&](interpret::Shape at) {
      moved.source(at);
      int64_t offset = interpret::linearize(at, moved.shape);
      missing |= !known[offset];
      part.push_back(whole[offset]);
    });
    if (missing)
      return m.fail(op, rank) << "needs an element that no rank has";
    if (failed(m.write(op, frame, to, rank, part)))
      return failure();
  }
  return success();
}

std::vector<int64_t> allOf(int64_t n) {
  auto all = llvm::seq<int64_t>(0, std::max<int64_t>(0, n));
  return {all.begin(), all.end()};
}

struct AllToAllRun : RunModel<AllToAllRun, buffer::AllToAllOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AllToAllOp>(base);
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    return m.forEachGroup(op, frame, axes, [&](Ranks group) -> LogicalResult {
      auto sizes = evaluateSame(
          op, m, group, {op.getOuter(), op.getA(), op.getMiddle(), op.getB(), op.getInner()});
      if (failed(sizes))
        return failure();
      Moved moved;
      moved.shape.append(sizes->begin(), sizes->end());
      auto split = [&, shape = moved.shape](unsigned dim) {
        return [&m, axes, shape, dim](int rank) {
          interpret::Indices indices;
          for (auto [d, n] : llvm::enumerate(shape)) {
            std::vector<int64_t> list = allOf(n);
            auto [begin, size] = d == dim ? getSlice(m, axes, n, rank) : std::pair(int64_t(0), n);
            indices.push_back({list.begin() + begin, list.begin() + begin + size});
          }
          return indices;
        };
      };
      moved.before = split(op.getSplitsFirst() ? 3 : 1);
      moved.after = split(op.getSplitsFirst() ? 1 : 3);
      return move(op, m, frame, group, op.getFrom(), op.getTo(), moved);
    });
  }
};

struct PermuteRun : RunModel<PermuteRun, buffer::CollectivePermuteOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::CollectivePermuteOp>(base);
    SmallVector<SmallVector<StringAttr>> lists; // of n and the product, before and after
    llvm::SetVector<StringRef> axes;
    for (Attribute list : op.getSplits()) {
      lists.push_back(getAxisAttrs(list));
      for (StringAttr axis : lists.back())
        axes.insert(axis.getValue());
    }
    return m.forEachGroup(op, frame, axes.getArrayRef(), [&](Ranks group) -> LogicalResult {
      auto sizes = evaluateSame(
          op, m, group,
          {op.getOuter(), op.getBlocks(), op.getN(), op.getUnit(), op.getInner(), op.getFirst()});
      if (failed(sizes))
        return failure();
      int64_t outer = (*sizes)[0], blocks = (*sizes)[1], n = (*sizes)[2], unit = (*sizes)[3];
      int64_t inner = (*sizes)[4], first = (*sizes)[5];
      Moved moved;
      moved.shape = {outer, blocks * n * unit, inner};
      auto has = [&](unsigned list) {
        return [&, list](int rank) {
          DimFactor factors[] = {{blocks, {}}, {n, lists[list]}, {unit, {}}};
          auto middle =
              interpret::getIndices(factors, lists[list + 1], m.getGrid(), getCoordinates(m, rank));
          return interpret::Indices{allOf(outer), middle, allOf(inner)};
        };
      };
      moved.before = has(0);
      moved.after = has(2);
      moved.source = [&](interpret::Shape &index) {
        index[1] = interpret::rollIndex(index[1], first, n * unit);
      };
      return move(op, m, frame, group, op.getFrom(), op.getTo(), moved);
    });
  }
};

struct ExchangeRun : RunModel<ExchangeRun, buffer::ExchangeOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::ExchangeOp>(base);
    // For each dimension: the axes of each factor and of the remaining product, before and after
    // the op.
    std::vector<std::vector<std::pair<SmallVector<StringAttr>, SmallVector<StringAttr>>>> dims;
    llvm::SetVector<StringRef> axes;
    for (Attribute dim : op.getLayout()) {
      auto &pairs = dims.emplace_back();
      ArrayRef<Attribute> lists = cast<ArrayAttr>(dim).getValue();
      for (; lists.size() >= 2; lists = lists.drop_front(2)) {
        pairs.push_back({getAxisAttrs(lists[0]), getAxisAttrs(lists[1])});
        for (StringAttr axis : llvm::concat<StringAttr>(pairs.back().first, pairs.back().second))
          axes.insert(axis.getValue());
      }
    }
    return m.forEachGroup(op, frame, axes.getArrayRef(), [&](Ranks group) -> LogicalResult {
      SmallVector<int64_t> sizes = m.evaluate(op.getSizes(), group[0]);
      for (int rank : group)
        if (m.evaluate(op.getSizes(), rank) != sizes)
          return m.fail(op, rank) << "has other sizes than " << m.describe(group[0]);
      Moved moved;
      size_t next = 0;
      for (auto &pairs : dims) {
        int64_t product = 1;
        for (size_t f = 0; f + 1 < pairs.size(); ++f)
          product *= next < sizes.size() ? sizes[next++] : 0;
        moved.shape.push_back(product);
      }
      if (next != sizes.size())
        return m.fail(op, group[0]) << "has another number of sizes than of factors";
      auto has = [&](bool before) {
        return [&, before](int rank) {
          interpret::Indices indices;
          size_t next = 0;
          for (auto &pairs : dims) {
            SmallVector<DimFactor> factors;
            for (size_t f = 0; f + 1 < pairs.size(); ++f)
              factors.push_back({sizes[next++], before ? pairs[f].first : pairs[f].second});
            indices.push_back(
                interpret::getIndices(factors, before ? pairs.back().first : pairs.back().second,
                                      m.getGrid(), getCoordinates(m, rank)));
          }
          return indices;
        };
      };
      moved.before = has(true);
      moved.after = has(false);
      return move(op, m, frame, group, op.getFrom(), op.getTo(), moved);
    });
  }
};

struct SendRun : RunModel<SendRun, buffer::SendOp> {
  LogicalResult runOnBuffers(Operation *op, BufferMachine &m, Frame &frame) const {
    return m.send(cast<buffer::SendOp>(op), frame);
  }
};
struct RecvRun : RunModel<RecvRun, buffer::RecvOp> {
  LogicalResult runOnBuffers(Operation *op, BufferMachine &m, Frame &frame) const {
    return m.receive(cast<buffer::RecvOp>(op), frame);
  }
};
} // namespace

void lowered::attachCommunicationRuns(MLIRContext *context) {
  buffer::AllReduceOp::attachInterface<AllReduceRun>(*context);
  buffer::AllReduceStartOp::attachInterface<AllReduceStartRun>(*context);
  buffer::WaitOp::attachInterface<WaitRun>(*context);
  buffer::AllGatherOp::attachInterface<AllGatherRun>(*context);
  buffer::ReduceScatterOp::attachInterface<ReduceScatterRun>(*context);
  buffer::BroadcastOp::attachInterface<BroadcastRun>(*context);
  buffer::DispatchOp::attachInterface<DispatchRun>(*context);
  buffer::CombineOp::attachInterface<CombineRun>(*context);
  buffer::AllToAllOp::attachInterface<AllToAllRun>(*context);
  buffer::CollectivePermuteOp::attachInterface<PermuteRun>(*context);
  buffer::ExchangeOp::attachInterface<ExchangeRun>(*context);
  buffer::SendOp::attachInterface<SendRun>(*context);
  buffer::RecvOp::attachInterface<RecvRun>(*context);
}
