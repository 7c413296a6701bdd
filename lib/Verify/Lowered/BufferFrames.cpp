//===- BufferFrames.cpp - Sizes of frames and launches --------------------===//
//
// Runs do not detect a frame that is larger than its slots, because results are still correct. A
// wrong size may even be correct at small sizes: `2^40 * floordiv(sequence, 40)` bytes. Sizes of
// frames are therefore compared with the slots, at samples from the smallest to the largest sizes
// that constraints allow.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"
#include "SizeRanges.h"

#include "tpc/Buffer/Buffer.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

namespace {
/// Samples of symbol values: the largest values, then the smallest values, then values in between.
class Samples {
public:
  explicit Samples(SizeRanges &ranges) : ranges(ranges) {}
  static constexpr unsigned count = 5;

  /// Returns nothing on overflow of 64 bits.
  std::optional<int64_t> evaluate(const SymExpr &expr, unsigned sample) {
    std::set<std::string> names;
    expr.collectSymbols(names);
    for (const std::string &name : names)
      if (values[sample].find(name) == values[sample].end())
        values[sample][name] = draw(name, sample);
    return expr.evaluate(values[sample]);
  }

private:
  int64_t draw(const std::string &name, unsigned sample) {
    SizeRanges::Interval range = ranges.getSymbol(name);
    __int128 low = range.low.get(), high = range.high.get();
    if (sample < 2 || low >= high)
      return int64_t(sample == 0 ? high : low);
    uint64_t hash = llvm::hash_combine(name, sample) * 0x9E3779B97F4A7C15ull >> 20;
    __int128 span = sample == 2 ? high - low : std::min<__int128>(high - low, 300);
    return int64_t(low + hash % uint64_t(span + 1));
  }

  SizeRanges &ranges;
  std::map<std::string, int64_t> values[count];
};
} // namespace

static InFlightDiagnostic fail(Operation *op) {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << "): ";
}

static LogicalResult checkFrame(buffer::PushOp push, Samples &samples) {
  SetVector<std::pair<Attribute, buffer::ExprAttr>> slots;
  for (Operation *user : push.getFrame().getUsers())
    if (auto slot = dyn_cast<buffer::SlotOp>(user)) {
      SymExpr slotBytes = slot.getExtent().getBytes();
      // A frame that events of several micro-batches share has the size of the first one, which is
      // the largest.
      if (auto iterations = dyn_cast<buffer::MicroBatchesOp>(slot->getParentOp());
          iterations && iterations.getFirst() && push->getBlock() != slot->getBlock())
        slotBytes = slotBytes.substitute({{"rank.mb", SymExpr(0)}});
      slots.insert({slot.getOffsetAttr(), buffer::ExprAttr::get(push.getContext(), slotBytes)});
    }
  if (slots.empty())
    return fail(push) << "no slot is in this frame; remove it";
  constexpr int64_t alignment = 64;
  SymExpr bytes = push.getBytes().getExpr();
  for (unsigned sample = 0; sample < Samples::count; ++sample) {
    std::optional<int64_t> all = samples.evaluate(bytes, sample);
    if (!all)
      continue;
    int64_t last = 0;
    bool known = true;
    for (auto [offset, size] : slots) {
      auto begin = samples.evaluate(cast<buffer::ExprAttr>(offset).getExpr(), sample);
      auto length = samples.evaluate(size.getExpr(), sample);
      int64_t end = 0;
      known &= begin && length && !__builtin_add_overflow(*begin, *length, &end);
      last = std::max(last, end);
    }
    if (known && *all - last >= alignment)
      return fail(push) << "has " << *all << " bytes at some sizes ('" << bytes.str()
                        << "'), but its slots end at byte " << last;
  }
  return success();
}

LogicalResult lowered::checkFrames(ModuleOp program) {
  SizeRanges ranges(program);
  Samples samples(ranges);
  DenseSet<Attribute> grains;
  for (auto function : program.getOps<buffer::FuncOp>()) {
    WalkResult result = function.walk([&](Operation *op) -> WalkResult {
      if (auto push = dyn_cast<buffer::PushOp>(op))
        return checkFrame(push, samples);
      auto launch = dyn_cast<buffer::LaunchOp>(op);
      if (!launch || !grains.insert(launch.getGrainAttr()).second)
        return success();
      SizeRanges::Interval grain = ranges.get(launch.getGrain().getExpr());
      if (grain.low >= SizeRanges::Wide(1) && grain.high.fits64())
        return success();
      return fail(launch) << "has from " << grain.low.str() << " to " << grain.high.str()
                          << " rows per thread, which must be at least 1 and fit in 64 bits";
    });
    if (result.wasInterrupted())
      return failure();
  }
  return success();
}
