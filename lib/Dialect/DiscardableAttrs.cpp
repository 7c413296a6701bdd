//===- DiscardableAttrs.cpp - Verification of discardable tpc.* attributes ===//
//
// The table below lists all discardable attributes by which passes communicate, with the allowed
// ops and values. Any other tpc.* attribute is an error.
//
//===----------------------------------------------------------------------===//

#include "DiscardableAttrs.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/LinksAttr.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/SourceToken.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/WeightParts.h"

#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Kinds of owners of an attribute, as a bit set.
enum AttrOwner : unsigned {
  OnModule = 1,
  OnFunction = 2,
  OnInput = 4, // an argument of a function, or an input of the pipeline
  OnOutput = 8,
  OnStage = 16,
  OnWeight = 32,
  OnValue = 64, // an op with results
};

/// For attributes whose verifier checks the owner.
constexpr unsigned anywhere = ~0u;

/// An attribute in the IR.
struct AttrUse {
  Attribute value;
  Type type;     // type of the annotated tensor; null: no tensor
  Operation *op; // null for inputs of a pipeline
  MeshAttr grid;
};

struct Entry {
  StringRef name;
  unsigned owners;
  StringRef expected; // description of valid values, after "must be"
  bool (*fits)(const AttrUse &);
  /// Verifier with its own error message.
  LogicalResult (*verify)(const AttrUse &, function_ref<InFlightDiagnostic()>) = nullptr;
};

} // namespace

template <typename... AttrT> static bool is(const AttrUse &found) {
  return isa<AttrT...>(found.value);
}

static bool isCount(const AttrUse &found) {
  auto number = dyn_cast<IntegerAttr>(found.value);
  return number && number.getValue().getSignificantBits() <= 64 && number.getInt() >= 0;
}

template <typename ElementT> static bool isListOf(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && llvm::all_of(list, llvm::IsaPred<ElementT>);
}

/// Whether the value is a list of #tpc.dim or unit.
static bool isListOfDims(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && llvm::all_of(list, llvm::IsaPred<DimAttr, UnitAttr>);
}

/// Whether the value has an offset for each index of the first dimension, beginning with the
/// weight's.
static bool areParts(const AttrUse &found) {
  auto parts = dyn_cast<DenseI64ArrayAttr>(found.value);
  auto type = dyn_cast<RankedTensorType>(found.type);
  auto weight = dyn_cast_or_null<WeightOp>(found.op);
  return parts && type && weight && type.getRank() > 0 && type.getDimSize(0) == parts.size() &&
         !parts.empty() && parts[0] == int64_t(weight.getOffset()) &&
         llvm::all_of(parts.asArrayRef(), [](int64_t offset) { return offset >= 0; });
}

static bool areConstraints(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && llvm::all_of(list, [](Attribute entry) {
           auto constraint = dyn_cast<DictionaryAttr>(entry);
           if (!constraint || !constraint.getAs<SymExprAttr>("expr"))
             return false;
           return llvm::all_of(constraint, [](NamedAttribute field) {
             StringRef name = field.getName();
             return name == "min" || name == "max" ? isa<IntegerAttr>(field.getValue())
                    : name == "why"                ? isa<StringAttr>(field.getValue())
                                                   : name == "expr";
           });
         });
}

static bool isTextIn(DictionaryAttr fields, StringRef name) {
  return isa_and_present<StringAttr>(fields.get(name));
}

/// Whether the value has the fields {axis, kind, why}, and a size if the collective moves a
/// dimension.
static bool isExpectedCollective(Attribute value) {
  auto fields = dyn_cast<DictionaryAttr>(value);
  return fields && isTextIn(fields, "axis") && isTextIn(fields, "kind") &&
         isTextIn(fields, "why") && (!fields.get("size") || isTextIn(fields, "size"));
}

static bool areTactics(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && llvm::all_of(list, [](Attribute entry) {
           auto tactic = dyn_cast<DictionaryAttr>(entry);
           if (!tactic || !isTextIn(tactic, "name"))
             return false;
           auto splits = tactic.getAs<ArrayAttr>("splits");
           auto predicts = tactic.getAs<ArrayAttr>("predicts");
           return splits && predicts && llvm::all_of(splits, llvm::IsaPred<StringAttr>) &&
                  llvm::all_of(predicts, isExpectedCollective);
         });
}

/// Whether the value is a list of {node, stage}.
static bool areStages(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && !list.empty() && llvm::all_of(list, [](Attribute entry) {
           auto fields = dyn_cast<DictionaryAttr>(entry);
           return fields && fields.size() == 2 && fields.getAs<StringAttr>("node") &&
                  fields.getAs<IntegerAttr>("stage");
         });
}

static bool areNumbers(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  return list && llvm::all_of(list, [](Attribute entry) {
           auto tensor = dyn_cast<DenseElementsAttr>(entry);
           return tensor && tensor.getElementType().isF64();
         });
}

static bool hasCopies(const AttrUse &found) { return areValidCopies(found.value, found.type); }

static bool areSourceCaches(const AttrUse &found) { return SourceCaches::isValid(found.value); }

static bool isTokenId(const AttrUse &found) {
  auto id = dyn_cast<IntegerAttr>(found.value);
  return id && id.getInt() >= 0;
}

static bool isHash(const AttrUse &found) {
  auto text = dyn_cast<StringAttr>(found.value);
  return text && text.size() == 16 && llvm::all_of(text.getValue(), llvm::isHexDigit);
}

/// Whether the value is a valid number of row dimensions of the kernel's results.
static bool isKernel(const AttrUse &found) {
  auto function = dyn_cast_or_null<FunctionOpInterface>(found.op);
  return isCount(found) && function && !function.isExternal() && function.getNumResults() > 0 &&
         llvm::all_of(function.getResultTypes(), [&](Type type) {
           auto tensor = dyn_cast<RankedTensorType>(type);
           return tensor && cast<IntegerAttr>(found.value).getInt() <= tensor.getRank();
         });
}

/// Whether the value is a list of the number of leading dimensions that form the rows, and the row
/// stride in elements.
static bool isRowStride(const AttrUse &found) {
  auto list = dyn_cast<ArrayAttr>(found.value);
  auto tensor = dyn_cast_or_null<RankedTensorType>(found.type);
  auto dims = list && list.size() == 2 ? dyn_cast<IntegerAttr>(list[0]) : IntegerAttr();
  return dims && tensor && isa<SymExprAttr>(list[1]) && dims.getType().isInteger(64) &&
         dims.getInt() > 0 && dims.getInt() <= tensor.getRank() && found.op &&
         found.op->hasAttr(kKernelAttr);
}

/// Whether the op may be fused into the matmul directly before it.
static bool isFused(const AttrUse &found) {
  auto operand = dyn_cast<IntegerAttr>(found.value);
  if (!operand || !operand.getType().isInteger(32) || !found.op ||
      !isa<AddOp, GeluOp, SiluOp, ReluOp>(found.op))
    return false;
  int64_t index = operand.getInt();
  if (index < 0 || index >= int64_t(found.op->getNumOperands()))
    return false;
  Operation *producer = found.op->getOperand(index).getDefiningOp();
  return producer && producer->getBlock() == found.op->getBlock() && producer->hasOneUse() &&
         (isa<MatmulOp>(producer) || producer->hasAttr(kFusedAttr));
}

/// Whether the op is one of several matmuls with the same LHS.
static bool isMerged(const AttrUse &found) {
  auto product = dyn_cast_or_null<MatmulOp>(found.op);
  return isCount(found) && product && llvm::any_of(product.getLhs().getUses(), [&](OpOperand &use) {
           Operation *other = use.getOwner();
           return other != found.op && isa<MatmulOp>(other) && use.getOperandNumber() == 0 &&
                  other->getBlock() == product->getBlock() &&
                  other->getAttr(kMergedAttr) == found.value;
         });
}

/// Whether a cast converts between these types.
static bool isBetween(Operation *op, bool fromHalf) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  if (!cast)
    return false;
  Type half = getElementTypeOrSelf(fromHalf ? cast.getOperand() : cast.getResult());
  Type single = getElementTypeOrSelf(fromHalf ? cast.getResult() : cast.getOperand());
  return (half.isF16() || half.isBF16()) && single.isF32();
}

/// Whether the op is a cast from 16 bits to f32 whose result is used only as the RHS of matmuls.
static bool isLoaded(const AttrUse &found) {
  return isa<UnitAttr>(found.value) && isBetween(found.op, /*fromHalf=*/true) &&
         llvm::all_of(found.op->getUses(), [](OpOperand &use) {
           return isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 1;
         });
}

/// Whether the op's result is used only as the RHS of matmuls, possibly through other ops with this
/// attribute.
static bool isQuantized(const AttrUse &found) {
  return isa<UnitAttr>(found.value) &&
         (isa_and_nonnull<DequantizeOp>(found.op) ||
          isa_and_nonnull<MovementOpInterface>(found.op) ||
          isBetween(found.op, /*fromHalf=*/true)) &&
         llvm::all_of(found.op->getUses(), [](OpOperand &use) {
           return use.getOwner()->hasAttr(kQuantizedAttr) ||
                  (isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 1);
         });
}

/// Whether the op is a movement op whose result may alias its operand.
static bool isAliased(const AttrUse &found) {
  return isa<UnitAttr>(found.value) &&
         isa_and_nonnull<LocalSliceOp, ExpandOp, ReshapeOp, TransposeOp, GatherOp>(found.op);
}

/// Whether the op is a cast that tpc-widen-matmuls inserts after a matmul, attention or experts. In
/// a kernel, its operand is an argument.
static bool roundsParts(const AttrUse &found) {
  if (!isa<UnitAttr>(found.value) || !isBetween(found.op, /*fromHalf=*/false))
    return false;
  if (Operation *producer = found.op->getOperand(0).getDefiningOp())
    return isa<MatmulOp, AttentionOp, MoeOp>(producer);
  return found.op->getParentOp()->hasAttr(kKernelAttr);
}

static LogicalResult checkSharding(const AttrUse &found,
                                   function_ref<InFlightDiagnostic()> emitError) {
  auto tensor = dyn_cast_or_null<RankedTensorType>(found.type);
  if (!tensor || !(tensor.hasStaticShape() || isa_and_nonnull<DistAttr>(tensor.getEncoding())))
    return emitError() << "belongs on a tpc.weight, an argument of @main, or an op with one "
                          "result, a tensor";
  return verifySharding(found.value, getSizes(found.type), found.grid, emitError);
}

/// Checks that the static sizes of local types are the sizes on each rank. DistAttr::verifyEncoding
/// cannot, because it has no grid.
static LogicalResult checkGrid(const AttrUse &found, function_ref<InFlightDiagnostic()> emitError) {
  auto grid = dyn_cast<MeshAttr>(found.value);
  if (!grid)
    return emitError() << "must be a #tpc.mesh, not " << found.value;
  llvm::DenseSet<Type> checked;
  auto check = [&](Operation *op, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto dist = tensor ? dyn_cast_or_null<DistAttr>(tensor.getEncoding()) : DistAttr();
    if (!dist || !dist.getLocal() || !checked.insert(type).second)
      return WalkResult::advance();
    for (auto [i, size] : llvm::enumerate(tensor.getShape())) {
      std::optional<int64_t> local = dist.getDims()[i].getStaticLocalSize(grid);
      if (!ShapedType::isDynamic(size) && local != size) {
        InFlightDiagnostic error = op->emitError() << "dimension " << i << " of " << type;
        if (local)
          error << " must be " << *local << " on each rank of " << grid;
        else
          error << " must be '?', because it is not the same on all ranks of " << grid;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  };
  auto checkAll = [&](Operation *op, TypeRange types) {
    for (Type type : types)
      if (check(op, type).wasInterrupted())
        return WalkResult::interrupt();
    return WalkResult::advance();
  };
  WalkResult result = found.op->walk([&](Operation *op) {
    if (checkAll(op, op->getResultTypes()).wasInterrupted())
      return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (checkAll(op, block.getArgumentTypes()).wasInterrupted())
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult checkLinks(const AttrUse &found, function_ref<InFlightDiagnostic()>) {
  return verifyLinks(found.value, [&] { return found.op->emitError(); });
}

/// Checks that the module has the cache. (For inputs of pipelines, CacheOp checks this.)
static LogicalResult checkCache(const AttrUse &found,
                                function_ref<InFlightDiagnostic()> emitError) {
  auto name = dyn_cast<FlatSymbolRefAttr>(found.value);
  if (!name)
    return emitError() << "must be a symbol, not " << found.value;
  if (found.op && !SymbolTable::lookupNearestSymbolFrom<CacheOp>(found.op, name))
    return emitError() << "names the unknown tpc.cache " << name;
  return success();
}

/// Checks that the value is [@weight] or [@weight, #tpc.view], and that the weight exists.
static LogicalResult checkUpdate(const AttrUse &found,
                                 function_ref<InFlightDiagnostic()> emitError) {
  auto parts = dyn_cast<ArrayAttr>(found.value);
  auto weight = parts && (parts.size() == 1 || parts.size() == 2)
                    ? dyn_cast<FlatSymbolRefAttr>(parts[0])
                    : FlatSymbolRefAttr();
  if (!weight || (parts.size() == 2 && !isa<ViewAttr>(parts[1])))
    return emitError() << "must be [@weight] or [@weight, #tpc.view], not " << found.value;
  if (found.op && !SymbolTable::lookupNearestSymbolFrom<WeightOp>(found.op, weight))
    return emitError() << "names the unknown tpc.weight " << weight;
  return success();
}

static bool isOptimizer(const AttrUse &found) {
  auto fields = dyn_cast<DictionaryAttr>(found.value);
  return fields && fields.getAs<StringAttr>("name") &&
         llvm::all_of(fields, [](NamedAttribute field) {
           return field.getName() == "name" || isa<FloatAttr>(field.getValue());
         });
}

static const Entry table[] = {
    // Program.
    {kMeshAttr, OnModule, "", nullptr, checkGrid},
    {kConstraintsAttr, OnModule, "a list of {expr = #tpc.expr<...>, ...}", areConstraints},
    {kSourceAttr, OnModule, "a path", is<StringAttr>},
    {kNameAttr, OnInput | OnOutput, "a text", is<StringAttr>},
    {kCopiesAttr, OnOutput, "a dimension and the number of copies of each of its indices",
     hasCopies},
    {kPartsAttr, OnWeight, "an offset for each index of the weight's first dimension", areParts},
    {kDefaultAttr, OnInput, "a #tpc.default", is<InputDefaultAttr>},
    {kRequiredAttr, OnInput, "a text", is<StringAttr>},
    {kLayerAttr, OnFunction, "a unit attribute", is<UnitAttr>},
    {kLayerPartAttr, OnFunction, "a unit attribute", is<UnitAttr>},

    // Generation: state between steps.
    {kCacheAttr, OnInput | OnOutput, "", nullptr, checkCache},
    {kStepAttr, OnModule, "a #tpc.step", is<StepAttr>},
    {kSourceCachesAttr, OnModule,
     "{tokens, capacity, lengths}, all texts, and optionally the number 'each'", areSourceCaches},
    {kSourceTokenAttr, OnModule, "a token id", isTokenId},

    // Training.
    {kUpdateAttr, OnOutput, "", nullptr, checkUpdate},
    {kOptimizerAttr, OnModule, "{name = a text, and numbers}", isOptimizer},

    // User annotations; see Sharding.h and LinksAttr.h.
    {kShardingAttr, anywhere, "", nullptr, checkSharding},
    {kShardingSourceAttr, OnInput | OnWeight | OnValue, "a text", is<StringAttr>},
    {kDevicesAttr, OnModule, "a list of dictionaries", isListOf<DictionaryAttr>},
    {kPipelineStageAttr, OnValue,
     "the index of a stage or, on a call, a list of {node = \"name\", stage = index}",
     [](const AttrUse &found) {
       return isa<IntegerAttr>(found.value) ||
              (isa_and_nonnull<CallOpInterface>(found.op) && areStages(found));
     }},
    {kRecordedStagesAttr, OnModule, "a list of {node = \"name\", stage = index}", areStages},
    {kLinksAttr, OnModule, "", nullptr, checkLinks},
    {kTargetAttr, OnModule, "the name of a target", is<StringAttr>},

    // Tactics and sharding.
    {kSplitAttr, OnInput | OnValue, "a list of #tpc.dim", isListOfDims},
    {kResultSplitAttr, OnValue, "a list of #tpc.dim", isListOfDims},
    {kTacticsAttr, OnModule,
     "a list of {name, splits = [texts], predicts = [{axis, kind, size, why}, ...]}", areTactics},
    {kWarningsAttr, OnModule, "a list of texts", isListOf<StringAttr>},
    {kBatchAttr, OnModule, "a #tpc.dim", is<DimAttr>},
    {kNormAttr, OnValue, "a unit attribute", is<UnitAttr>},
    {kBiasAttr, OnValue, "a unit attribute", is<UnitAttr>},
    {kRepeatedHeadsAttr, OnValue, "a text", is<StringAttr>},
    {kNormsDecomposedAttr, OnModule, "a unit attribute", is<UnitAttr>},

    // Stages: index and estimated cost.
    {kStageAttr, OnFunction, "the index of a stage", isCount},
    {kSecondsAttr, OnFunction | OnStage, "a number of seconds", is<FloatAttr>},
    {kLayerSecondsAttr, OnFunction | OnStage, "a number of seconds", is<FloatAttr>},
    {kRecomputedSecondsAttr, OnFunction | OnStage, "a number of seconds", is<FloatAttr>},
    {kTransferSecondsAttr, OnFunction | OnStage, "a number of seconds", is<FloatAttr>},
    {kWeightBytesAttr, OnFunction | OnStage, "a number of bytes", isCount},

    // Results of verifiers, for the manifest.
    {kScheduleAttr, OnModule, "a hash of 16 hexadecimal digits", isHash},
    {kNotVerifiedAttr, OnModule, "a text", is<StringAttr>},
    {kNoRandomizedCheckAttr, OnModule, "a text", is<StringAttr>},

    // Lowering.
    {kKernelAttr, OnFunction, "a number of dimensions that all results of its body have", isKernel},
    {kFusedAttr, OnValue,
     "the index of an operand that the fused matmul computes and that has no other use", isFused},
    {kMergedAttr, OnValue, "a number that other matmuls of the same LHS have too", isMerged},
    {kRowStrideAttr, OnInput, "a number of dimensions and a #tpc.expr, on an argument of a kernel",
     isRowStride},
    {kAliasedAttr, OnValue, "a unit attribute of a movement of a cache", isAliased},
    {kLoadedAttr, OnValue,
     "a unit attribute of a cast from 16 bits to f32 that is used only as the RHS of matmuls",
     isLoaded},
    {kQuantizedAttr, OnValue,
     "a unit attribute of an op between quantized parameters and the RHS of a matmul", isQuantized},
    {kRoundsPartsAttr, OnValue, "a unit attribute of the cast of a matmul from f32 to 16 bits",
     roundsParts},

    // Tests: recorded by tpc-evaluate.
    {kInputsAttr, OnModule, "a list of f64 tensors", areNumbers},
    {kExpectedAttr, OnModule, "a list of f64 tensors", areNumbers},
};

static std::string listOwners(unsigned owners) {
  static constexpr std::pair<unsigned, const char *> names[] = {
      {OnModule, "the module"},       {OnFunction, "a function"}, {OnInput, "an input"},
      {OnOutput, "an output"},        {OnStage, "a tpc.stage"},   {OnWeight, "a tpc.weight"},
      {OnValue, "an op with results"}};
  SmallVector<StringRef> list;
  for (auto [bit, name] : names)
    if (owners & bit)
      list.push_back(name);
  return llvm::join(list, " or ");
}

static LogicalResult verify(StringRef name, unsigned owner, const AttrUse &found,
                            function_ref<InFlightDiagnostic()> emitError) {
  const Entry *entry = llvm::find_if(table, [&](const Entry &e) { return e.name == name; });
  if (entry == std::end(table))
    return emitError() << "unknown attribute '" << name << "'";
  if (!(entry->owners & owner) && entry->owners != anywhere)
    return emitError() << "'" << name << "' belongs on " << listOwners(entry->owners);
  if (entry->verify)
    return entry->verify(found, [&] { return emitError() << "'" << name << "' "; });
  if (!entry->fits(found))
    return emitError() << "'" << name << "' must be " << entry->expected << ", not " << found.value;
  return success();
}

LogicalResult TpcDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  unsigned owner = isa<ModuleOp>(op)              ? OnModule
                   : isa<FunctionOpInterface>(op) ? OnFunction
                   : isa<StageOp>(op)             ? OnStage
                   : isa<WeightOp>(op)            ? OnWeight
                   : op->getNumResults() > 0      ? OnValue
                                                  : 0u;
  Type type;
  if (auto weight = dyn_cast<WeightOp>(op))
    type = weight.getType();
  else if (op->getNumResults() == 1)
    type = op->getResult(0).getType();
  return verify(attribute.getName(), owner, {attribute.getValue(), type, op, MeshAttr::lookup(op)},
                [&] { return op->emitError(); });
}

LogicalResult TpcDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argIndex,
                                                   NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  Type type = function ? function.getArgumentTypes()[argIndex] : Type();
  return verify(attribute.getName(), OnInput,
                {attribute.getValue(), type, op, MeshAttr::lookup(op)},
                [&] { return op->emitError() << "argument " << argIndex << ": "; });
}

LogicalResult TpcDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned resultIndex,
                                                      NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  Type type = function ? function.getResultTypes()[resultIndex] : Type();
  return verify(attribute.getName(), OnOutput,
                {attribute.getValue(), type, op, MeshAttr::lookup(op)},
                [&] { return op->emitError() << "result " << resultIndex << ": "; });
}

LogicalResult mlir::tpc::verifyInputAttribute(NamedAttribute attribute, Type type, MeshAttr grid,
                                              function_ref<InFlightDiagnostic()> emitError) {
  if (!attribute.getName().getValue().starts_with("tpc."))
    return success();
  return verify(attribute.getName(), OnInput, {attribute.getValue(), type, nullptr, grid},
                emitError);
}
