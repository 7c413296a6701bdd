//===- ProgramFacts.cpp - Value ranges of inputs and uses of weights ------===//

#include "Manifest.h"
#include "tpc/Dialect/State.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Returns whether `to` represents every value of `from`.
bool keepsNumbers(Type from, Type to) {
  if (from == to || from.isInteger(1))
    return !to.isInteger(1) || from == to;
  auto integers = dyn_cast<IntegerType>(from);
  unsigned bits = from.getIntOrFloatBitWidth();
  if (auto floats = dyn_cast<FloatType>(to)) {
    if (integers)
      return bits - !isUnsigned(from) <= floats.getFPMantissaWidth();
    return to.getIntOrFloatBitWidth() > bits; // f32 and f64 also have a larger range
  }
  if (!integers || to.isInteger(1))
    return false;
  unsigned width = to.getIntOrFloatBitWidth();
  return isUnsigned(from) == isUnsigned(to) ? width >= bits : isUnsigned(from) && width > bits;
}

/// Follows a value back to its origin through calls and ops that preserve all elements.
class Origins {
public:
  explicit Origins(ModuleOp module) {
    module.walk([&](func::CallOp call) {
      if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr()))
        calls[callee].push_back(call);
    });
  }

  /// The origin of a value, and the integer casts between the origin and the value, in order.
  struct Origin {
    Value value;
    SmallVector<Type> casts;
  };

  SmallVector<Origin> find(Value value) {
    SmallVector<Origin> found, work{{value, {}}};
    llvm::DenseSet<Value> seen{value};
    while (!work.empty()) {
      auto [v, casts] = work.pop_back_val();
      auto push = [&, &casts = casts](Value next) {
        if (seen.insert(next).second)
          work.push_back({next, casts});
      };
      Operation *op = v.getDefiningOp();
      if (auto arg = dyn_cast<BlockArgument>(v)) {
        auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
        if (!function)
          found.push_back({v, casts});
        else
          for (func::CallOp call : calls[function])
            push(call.getOperand(arg.getArgNumber()));
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
        push(callee.front().getTerminator()->getOperand(cast<OpResult>(v).getResultNumber()));
      } else if (auto movement = dyn_cast<MovementOpInterface>(op);
                 movement ? movement.preservesAllElements()
                          : isa<CastOp>(op) && passes(op, casts)) {
        push(op->getOperand(0));
      } else {
        found.push_back({v, casts});
      }
    }
    return found;
  }

  /// Returns whether a value can be followed back through a cast. A cast to a narrower integer
  /// wraps around and is added to `casts`. A cast of floats to a signed integer of at least 32 bits
  /// can be ignored, because values outside of its range are out of bounds of every table.
  static bool passes(Operation *cast, SmallVector<Type> &casts) {
    Type from = getElementTypeOrSelf(cast->getOperand(0)),
         to = getElementTypeOrSelf(cast->getResult(0));
    if (keepsNumbers(from, to))
      return true;
    if (!isa<IntegerType>(to) || to.isInteger(1))
      return false;
    if (isa<FloatType>(from))
      return casts.empty() && !isUnsigned(to) && to.getIntOrFloatBitWidth() >= 32;
    casts.insert(casts.begin(), to);
    return true;
  }

private:
  SymbolTableCollection symbols;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
};

/// Label that a loss ignores, as in PyTorch.
constexpr int64_t kIgnoredLabel = -100;

bool isLabels(PipelineOp pipeline, BlockArgument input) {
  auto attributes = cast<DictionaryAttr>(pipeline.getInputAttrs()[input.getArgNumber()]);
  auto name = attributes.getAs<StringAttr>(kNameAttr);
  return name && name.getValue() == "labels";
}

/// Returns true for programs with the loss that tpc-derive-backward adds. Losses of files have
/// labels with rules of their own (`ignore_index`).
bool hasDerivedLoss(ModuleOp module, PipelineOp pipeline) {
  return module->hasAttr(kOptimizerAttr) ||
         llvm::any_of(pipeline.getOutputs().getAsRange<DictionaryAttr>(),
                      [&](DictionaryAttr output) {
                        auto name = output.getAs<StringAttr>("name");
                        return name && name.getValue().starts_with("grad.");
                      });
}

/// Slices of an input along one dimension whose elements index tables.
struct SlicedInput {
  /// For each index of the dimension, the range of the smallest table that its elements index.
  SmallVector<std::optional<ProgramFacts::Range>> smallest;

  void add(int64_t size, int64_t start, int64_t count, const ProgramFacts::Range &range) {
    smallest.resize(size);
    for (int64_t i = start; i < std::min(start + count, size); ++i)
      if (!smallest[i] || range.max < smallest[i]->max)
        smallest[i] = range;
  }
  /// Returns the range if all indices of the dimension have the same one.
  std::optional<ProgramFacts::Range> getCommon() const {
    bool isCommon = llvm::all_of(smallest, [&](const auto &range) {
      return range && range->max == smallest[0]->max && range->min == smallest[0]->min;
    });
    return isCommon && !smallest.empty() ? smallest[0] : std::nullopt;
  }
};
} // namespace

ProgramFacts ProgramFacts::get(ModuleOp module, PipelineOp pipeline) {
  ProgramFacts facts;
  Origins origins(module);
  auto weightOf = [&](Value v) -> StringAttr {
    for (auto &[origin, casts] : origins.find(v))
      if (auto parameter = origin.getDefiningOp<ParameterOp>())
        return parameter.getWeightAttr().getAttr();
    return {};
  };
  // All elements of an input must be in bounds of all tables that it indexes. For an input with
  // several cast sequences, kernels check the bounds.
  auto addRange = [&](BlockArgument input, const Range &range) {
    auto [it, isNew] = facts.inputRanges.try_emplace(input.getArgNumber(), range);
    Range &known = it->second;
    if (!isNew && (known.casts == range.casts ? known.max > range.max : range.casts.empty()))
      known = range;
  };
  auto getInput = [&](Value origin) {
    auto input = dyn_cast<BlockArgument>(origin);
    return input && input.getOwner()->getParentOp() == pipeline ? input : BlockArgument();
  };
  // Inputs that are sliced, for example into micro-batches, before their elements index a table.
  llvm::MapVector<std::pair<BlockArgument, int64_t>, SlicedInput> sliced;
  auto addSlice = [&](SliceOp slice, const Range &range) {
    int64_t dim = slice.getDim();
    auto start = slice.getStart().asConstant(),
         count = getSizes(slice.getResult())[dim].asConstant(),
         size = getSizes(slice.getOperand())[dim].asConstant();
    if (!start || !count || !size || slice.getStep() != 1)
      return;
    for (auto &[origin, casts] : origins.find(slice.getOperand()))
      if (BlockArgument input = getInput(origin); input && casts.empty())
        sliced[{input, dim}].add(*size, *start, *count, range);
  };
  auto checkLookup = [&](LookupOpInterface lookup) {
    Value table = lookup.getLookupTable();
    auto rows = getSizes(table)[lookup.getLookupDims()[0]].asConstant();
    if (!rows)
      return;
    StringAttr weight = weightOf(table);
    for (auto &[origin, casts] : origins.find(lookup.getLookupIndices())) {
      Range range{-*rows, *rows - 1, weight ? weight.str() : "", casts};
      if (BlockArgument input = getInput(origin))
        addRange(input, range);
      else if (auto slice = origin.getDefiningOp<SliceOp>(); slice && casts.empty())
        addSlice(slice, range);
    }
  };
  // Labels of a loss select classes by comparison with all indices of a dimension.
  auto checkLabels = [&](CmpOp compare) {
    for (auto [classes, labels] : {std::pair{compare.getLhs(), compare.getRhs()},
                                   std::pair{compare.getRhs(), compare.getLhs()}})
      for (auto &[origin, casts] : origins.find(classes)) {
        auto iota = origin.getDefiningOp<IotaOp>();
        auto count = iota ? getSizes(iota)[iota.getDim()].asConstant() : std::nullopt;
        for (auto &[source, types] : origins.find(labels))
          if (BlockArgument input = getInput(source);
              count && input && isLabels(pipeline, input) && casts.empty() && types.empty())
            addRange(input, {0, *count - 1, "", {}, kIgnoredLabel});
      }
  };
  bool hasLoss = hasDerivedLoss(module, pipeline);
  module.walk([&](Operation *op) {
    if (auto compare = dyn_cast<CmpOp>(op);
        compare && hasLoss && compare.getPredicate() == Predicate::EQ)
      checkLabels(compare);
    // Index tuples are skipped, because each of their elements has its own range.
    if (auto lookup = dyn_cast<LookupOpInterface>(op); lookup && lookup.getLookupDims().size() == 1)
      checkLookup(lookup);
    if (auto norm = dyn_cast<NormOpInterface>(op))
      for (auto &[origin, casts] : origins.find(norm.getScale()))
        if (auto parameter = origin.getDefiningOp<ParameterOp>())
          facts.onesByDefault.insert(parameter.getWeightAttr().getAttr());
  });
  for (auto &[key, slices] : sliced)
    if (auto range = slices.getCommon())
      addRange(key.first, *range);
  return facts;
}
