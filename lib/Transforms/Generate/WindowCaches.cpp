//===- WindowCaches.cpp - Sliding-window caches ---------------------------===//
//
// Windowed attention uses only differences between positions of queries and keys. It may
// therefore count positions from any token before the visible ones. A cache that only such
// attention reads gets a separate capacity and separate lengths.
//
//===----------------------------------------------------------------------===//

#include "Caches.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_WINDOWCACHES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// Cache with its append and readers.
struct WindowedCache {
  BlockArgument cache;
  AppendOp append;
  SetVector<Value> values; ///< append's result and views of it, up to attention
  SetVector<Operation *> readers;
};

struct WindowCaches : public mlir::tpc::impl::WindowCachesBase<WindowCaches> {
  /// Returns true if only the window and causality decide which keys are visible.
  static bool isWindowed(AttentionOp op) {
    return op.getCausal() && getWindow(op) >= 1 && !op.getMask() && !op.getBias() &&
           !op.getKeyMask();
  }
  /// Returns the window, or 0 if there is none or it is not constant.
  static int64_t getWindow(AttentionOp op) {
    return op.getWindow() ? op.getWindow()->asConstant().value_or(0) : 0;
  }

  std::optional<WindowedCache> find(BlockArgument cache) {
    auto append = cache.hasOneUse() ? dyn_cast<AppendOp>(*cache.user_begin()) : AppendOp();
    if (!append || append.getCache() != cache || append.getLengths() != lengths)
      return std::nullopt;
    WindowedCache found{cache, append, {}, {}};
    found.values.insert(append.getResult());
    for (unsigned i = 0; i < found.values.size(); ++i)
      for (OpOperand &use : found.values[i].getUses()) {
        Operation *user = use.getOwner();
        if (isa<func::ReturnOp>(user))
          continue;
        if (auto attention = dyn_cast<AttentionOp>(user)) {
          if (!isWindowed(attention) || attention.getLengths() != lengths)
            return std::nullopt;
          found.readers.insert(user);
        } else if (isa<TransposeOp, ReshapeOp, ExpandOp, CastOp>(user)) {
          found.values.insert(user->getResult(0));
        } else {
          return std::nullopt;
        }
      }
    return found.readers.empty() ? std::nullopt : std::optional(found);
  }

  RankedTensorType withWindowCapacity(Type type) const {
    SmallVector<SymExpr> sizes = getSizes(type);
    for (SymExpr &size : sizes)
      size = size.substitute({{step.capacity, SymExpr::symbol(step.windowed->capacity)}});
    return makeTensorType(cast<RankedTensorType>(type).getElementType(), sizes);
  }

  /// Drops caches whose partner has no window: keys and values of one attention have the same
  /// tokens.
  static void dropUnpaired(SmallVectorImpl<WindowedCache> &all) {
    bool changed = true;
    while (std::exchange(changed, false)) {
      DenseMap<Operation *, unsigned> count;
      for (WindowedCache &one : all)
        for (Operation *reader : one.readers)
          for (Value operand : {cast<AttentionOp>(reader).getK(), cast<AttentionOp>(reader).getV()})
            count[reader] += one.values.contains(operand);
      size_t before = all.size();
      llvm::erase_if(all, [&](const WindowedCache &one) {
        return llvm::any_of(one.readers, [&](Operation *reader) { return count[reader] != 2; });
      });
      changed = all.size() != before;
    }
  }

  void run(func::FuncOp main) {
    SmallVector<WindowedCache> all;
    for (BlockArgument argument : main.getArguments())
      if (getCache(main.getArgAttrDict(argument.getArgNumber())))
        if (std::optional<WindowedCache> found = find(argument))
          all.push_back(std::move(*found));
    dropUnpaired(all);
    if (all.empty())
      return;
    std::set<std::string> names;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr))
        names.insert(name.str());
    step.windowed =
        SlidingWindowCaches{1, makeSymbol(collectSymbols(getOperation()), "window_capacity"),
                            makeSymbol(names, "window_lengths")};
    for (const WindowedCache &one : all)
      for (Operation *reader : one.readers)
        step.windowed->window =
            std::max(step.windowed->window, getWindow(cast<AttentionOp>(reader)));
    // Inserted after the counts and before the caches.
    unsigned at = cast<BlockArgument>(lengths).getArgNumber() + 2;
    Builder builder(&getContext());
    (void)main.insertArgument(at, lengths.getType(),
                              builder.getDictionaryAttr(builder.getNamedAttr(
                                  kNameAttr, builder.getStringAttr(step.windowed->lengths))),
                              main.getLoc());
    Value own = main.getArgument(at);
    for (WindowedCache &one : all) {
      FlatSymbolRefAttr name = getCache(main.getArgAttrDict(one.cache.getArgNumber()));
      auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(main, name);
      cache.setType(withWindowCapacity(cache.getType()));
      one.cache.setType(withWindowCapacity(one.cache.getType()));
      one.append.getLengthsMutable().assign(own);
      for (Value value : one.values)
        value.setType(withWindowCapacity(value.getType()));
      for (Operation *reader : one.readers)
        cast<AttentionOp>(reader).getLengthsMutable().assign(own);
    }
    main.setType(FunctionType::get(&getContext(), main.front().getArgumentTypes(),
                                   main.front().getTerminator()->getOperandTypes()));
    step.attachTo(getOperation());
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto preallocated = PreallocatedStep::lookup(getOperation());
    if (!main || main.isExternal() || !preallocated || preallocated->windowed || preallocated->last)
      return;
    step = *preallocated;
    for (BlockArgument argument : main.getArguments())
      if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
          name && name.getValue() == step.lengths)
        lengths = argument;
    if (lengths)
      run(main);
    lengths = {};
  }

  PreallocatedStep step;
  Value lengths;
};
} // namespace
