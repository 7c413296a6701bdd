//===- StepFacts.cpp - Facts of a generation step -------------------------===//
//
// `tpc.step` lists the inputs, sizes and windows that the runtime uses. This check derives each
// field from the program: inputs and the first output from their types, and the window from the
// attention ops that read sliding-window caches.
//
//===----------------------------------------------------------------------===//

#include "Facts.h"

#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/State.h"
#include "tpc/Verify/Verify.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::facts;
using ::tpc::SymExpr;

static bool mentions(const SymExpr &expr, StringRef symbol) {
  std::set<std::string> symbols;
  expr.collectSymbols(symbols);
  return symbols.count(symbol.str()) != 0;
}

namespace {
class StepCheck {
public:
  StepCheck(ModuleOp program, const PreallocatedStep &step, const Ports &ports)
      : program(program), step(step), ports(ports) {}

  LogicalResult run() {
    // Only a staged program must have the tokens and logits that the runtime requires.
    bool isStaged = !program.getOps<PipelineOp>().empty();
    return failure(failed(checkNames()) || failed(checkInputs()) || failed(checkCaches()) ||
                   (isStaged && (failed(checkTokens()) || failed(checkLogits()))) ||
                   failed(checkWindows()));
  }

private:
  InFlightDiagnostic fail() { return emitError(program.getLoc()) << "'" << kStepAttr << "' "; }

  /// Checks that names are unique, because the runtime finds inputs and outputs by name.
  LogicalResult checkNames() {
    for (auto [list, what] : {std::pair(&ports.inputs, "input"), {&ports.outputs, "output"}}) {
      std::set<std::string> names;
      for (const Port &port : *list)
        if (!port.getName().empty() && !names.insert(port.getName().str()).second)
          return emitError(program.getLoc())
                 << "two " << what << "s are named '" << port.getName() << "'";
    }
    return success();
  }

  /// Checks that the input `name` is [batch] of i64.
  LogicalResult checkCountsOf(StringRef field, StringRef name) {
    auto port =
        llvm::find_if(ports.inputs, [&](const Port &port) { return port.getName() == name; });
    if (port == ports.inputs.end())
      return fail() << "names the input '" << name << "' as '" << field
                    << "', but the program has no such input";
    auto tensor = dyn_cast<RankedTensorType>(port->type);
    if (!tensor || tensor.getRank() != 1 || !tensor.getElementType().isInteger(64))
      return fail() << "names the input '" << name << "' as '" << field << "', which is "
                    << port->type << ", not [batch] of i64";
    if (batch && *batch != getSizes(tensor)[0])
      return fail() << "names inputs of " << batch->str() << " and of " << getSizes(tensor)[0].str()
                    << " sequences";
    batch = getSizes(tensor)[0];
    return success();
  }

  LogicalResult checkInputs() {
    if (failed(checkCountsOf("lengths", step.lengths)) ||
        failed(checkCountsOf("counts", step.counts)) ||
        (step.windowed && failed(checkCountsOf("window_lengths", step.windowed->lengths))) ||
        (source && failed(checkCountsOf("source_lengths", source->lengths))))
      return failure();
    for (auto [field, symbol] : {std::pair("tokens", step.tokens), {"capacity", step.capacity}})
      if (*batch == SymExpr::symbol(symbol))
        return fail() << "sets '" << field << "' to " << symbol
                      << ", which is the number of sequences";
    return success();
  }

  LogicalResult checkTokens() {
    unsigned ids = 0;
    for (const Port &port : ports.inputs)
      if (auto tensor = dyn_cast<RankedTensorType>(port.type);
          tensor && !getCache(port.attributes) && isa<IntegerType>(tensor.getElementType()) &&
          getSizes(tensor) == SmallVector<SymExpr>{*batch, SymExpr::symbol(step.tokens)})
        ++ids;
    if (ids != 1)
      return fail() << "sets 'tokens' to " << step.tokens << ", but " << ids
                    << " inputs are integers [" << batch->str() << ", " << step.tokens
                    << "]: exactly one must be the token ids";
    return success();
  }

  LogicalResult checkCaches() {
    bool windowed = false, sourced = false;
    for (auto cache : program.getOps<CacheOp>()) {
      std::string size = getSymbolName(getSizes(cache.getType())[CacheOp::tokenDim]).value_or("");
      bool isWindowed = step.windowed && size == step.windowed->capacity;
      windowed |= isWindowed;
      bool ofSource = source && size == source->capacity;
      sourced |= ofSource;
      if (!isWindowed && !ofSource && size != step.capacity)
        return cache.emitOpError()
               << "has a capacity of " << size << " tokens, which '" << kStepAttr
               << "' does not name ('capacity' is " << step.capacity
               << (step.windowed ? ", 'window_capacity' is " + step.windowed->capacity : "") << ")";
    }
    if (step.windowed && !windowed)
      return fail() << "sets 'window_capacity' to " << step.windowed->capacity
                    << ", but no cache has that size";
    if (source && !sourced)
      return emitError(program.getLoc()) << "'" << kSourceCachesAttr << "' sets 'capacity' to "
                                         << source->capacity << ", but no cache has that size";
    return success();
  }

  /// Checks that the first output has the logits of all tokens, or of the last token of each
  /// sequence.
  LogicalResult checkLogits() {
    auto tensor = ports.outputs.empty() ? RankedTensorType()
                                        : dyn_cast<RankedTensorType>(ports.outputs[0].type);
    SmallVector<SymExpr> sizes;
    if (tensor && !getCache(ports.outputs[0].attributes))
      sizes = getSizes(tensor);
    SmallVector<SymExpr> wanted{*batch};
    if (!step.last)
      wanted.push_back(SymExpr::symbol(step.tokens));
    if (sizes.size() != wanted.size() + 1 || ArrayRef(sizes).drop_back() != ArrayRef(wanted))
      return fail() << (step.last ? "has 'last', but the first output is not ["
                                  : "has no 'last', but the first output is not [")
                    << batch->str() << (step.last ? "" : ", " + step.tokens) << ", vocabulary]";
    return success();
  }

  /// Checks that attention over a sliding-window cache has a window. The runtime keeps tokens for
  /// the largest of these windows.
  LogicalResult checkWindows() {
    if (!step.windowed)
      return success();
    int64_t largest = 0;
    WalkResult walk = program.walk([&](AttentionOp op) {
      auto reads = [&](Value value) {
        return llvm::any_of(getSizes(value), [&](const SymExpr &size) {
          return mentions(size, step.windowed->capacity);
        });
      };
      if (!reads(op.getK()) && !reads(op.getV()))
        return WalkResult::advance();
      std::optional<int64_t> window = op.getWindow() ? op.getWindow()->asConstant() : std::nullopt;
      if (!window) {
        op.emitOpError() << "'" << getSourceName(op.getLoc())
                         << "' has no window, but reads a sliding-window cache";
        return WalkResult::interrupt();
      }
      largest = std::max(largest, *window);
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    if (largest != step.windowed->window)
      return fail() << "sets 'window' to " << step.windowed->window
                    << ", but the largest window of attention that reads sliding-window caches is "
                    << largest;
    return success();
  }

  ModuleOp program;
  std::optional<SourceCaches> source = SourceCaches::lookup(program);
  const PreallocatedStep &step;
  const Ports &ports;
  std::optional<SymExpr> batch;
};
} // namespace

LogicalResult facts::checkStep(ModuleOp program) {
  std::optional<PreallocatedStep> step = PreallocatedStep::lookup(program);
  bool hasCaches = !program.getOps<CacheOp>().empty();
  if (!step) {
    if (hasCaches && !StepSymbols::lookup(program))
      return emitError(program.getLoc())
             << "the program has caches, but no '" << kStepAttr << "' that describes their use";
    return success();
  }
  FailureOr<Ports> ports = readPorts(program);
  return failure(failed(ports) || failed(StepCheck(program, *step, *ports).run()));
}

//===----------------------------------------------------------------------===//
// A step and its reference
//===----------------------------------------------------------------------===//

namespace {
/// Compares the facts of a step with the facts of the model, or the facts of a step on preallocated
/// caches with the facts of the original step.
class StepComparison {
public:
  StepComparison(ModuleOp reference, ModuleOp step) : reference(reference), step(step) {}

  LogicalResult run() {
    Attribute source = reference->getAttr(kSourceAttr);
    if (source && source != step->getAttr(kSourceAttr))
      return emitError(step.getLoc())
             << "'" << kSourceAttr << "' of the step is not its reference's: weights would be "
             << "looked for elsewhere";
    return failure(failed(compareInputs()) || failed(compareConstraints()) ||
                   failed(compareWeights(step, reference)) || failed(compareOrder()) ||
                   failed(checkCachePorts()));
  }

private:
  /// Checks that an input of both programs has the same element type, default and requirement.
  LogicalResult compareInputs() {
    FailureOr<Ports> actual = readPorts(step), other = readPorts(reference);
    if (failed(actual) || failed(other))
      return failure();
    for (const Port &port : actual->inputs) {
      auto before = llvm::find_if(
          other->inputs, [&](const Port &port2) { return port2.getName() == port.getName(); });
      bool isNew = before == other->inputs.end();
      if (isNew && (port.attributes.get(kDefaultAttr) || port.attributes.get(kRequiredAttr)))
        return emitError(step.getLoc())
               << "input '" << port.getName() << "' of the step has the '" << kDefaultAttr
               << "' or '" << kRequiredAttr << "' of an input that its reference does not have";
      if (isNew || getCache(port.attributes) || port.getName().empty())
        continue;
      if (getElementTypeOrSelf(port.type) != getElementTypeOrSelf(before->type))
        return emitError(step.getLoc())
               << "input '" << port.getName() << "' is of " << getElementTypeOrSelf(port.type)
               << ", its reference's of " << getElementTypeOrSelf(before->type);
      for (StringRef name : {kDefaultAttr, kRequiredAttr})
        if (port.attributes.get(name) != before->attributes.get(name))
          return emitError(step.getLoc())
                 << "'" << name << "' of input '" << port.getName() << "' is not its reference's";
    }
    return success();
  }

  /// Checks that a step on preallocated caches has the caches in the order of the original step.
  LogicalResult compareOrder() {
    auto actual = step.getOps<CacheOp>(), other = reference.getOps<CacheOp>();
    if (!PreallocatedStep::lookup(step))
      return success();
    for (auto [have, want] : llvm::zip(actual, other))
      if (have.getSymName() != want.getSymName())
        return have.emitOpError() << "is in the position of @" << want.getSymName()
                                  << " in its reference";
    return success();
  }

  /// Checks that inputs and outputs of a cache have the cache's name or none, and that caches are
  /// declared in the order of their inputs.
  LogicalResult checkCachePorts() {
    FailureOr<Ports> ports = readPorts(step);
    if (failed(ports))
      return failure();
    for (auto [list, what] : {std::pair(&ports->inputs, "input"), {&ports->outputs, "output"}})
      for (const Port &port : *list)
        if (FlatSymbolRefAttr cache = getCache(port.attributes);
            cache && !port.getName().empty() && port.getName() != cache.getValue())
          return emitError(step.getLoc())
                 << what << " '" << port.getName() << "' of the step is of cache " << cache
                 << ", but must have its name";
    auto caches = step.getOps<CacheOp>();
    auto next = caches.begin();
    for (const Port &port : ports->inputs) {
      FlatSymbolRefAttr cache = getCache(port.attributes);
      if (!cache || next == caches.end())
        continue;
      if ((*next).getSymName() != cache.getValue())
        return (*next).emitOpError()
               << "is declared in the position of cache " << cache << ", by the order of inputs";
      ++next;
    }
    return success();
  }

  /// Returns the expressions that may replace a size of the reference in the step.
  SmallVector<SymExpr> getForms(const SymExpr &size) {
    SmallVector<SymExpr> forms{size};
    if (auto preallocated = PreallocatedStep::lookup(step)) {
      auto before = StepSymbols::lookup(reference);
      if (!before)
        return forms;
      SymExpr capacity = SymExpr::symbol(preallocated->capacity),
              past = SymExpr::symbol(before->past);
      // The capacity replaces past plus new tokens, or only the past.
      forms.push_back(
          size.substitute({{before->past, capacity - SymExpr::symbol(before->tokens)}}));
      if (SymExpr rest = size - past; rest.isConstant())
        forms.push_back(capacity + rest);
    } else if (auto symbols = StepSymbols::lookup(step)) {
      forms.push_back(size.substitute(
          {{symbols->tokens, SymExpr::symbol(symbols->past) + SymExpr::symbol(symbols->tokens)}}));
    }
    return forms;
  }

  static SmallVector<DictionaryAttr> getConstraints(ModuleOp module) {
    auto list = module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
    return list ? llvm::to_vector(list.getAsRange<DictionaryAttr>())
                : SmallVector<DictionaryAttr>();
  }
  static SymExpr getSize(DictionaryAttr constraint) {
    return constraint.getAs<SymExprAttr>("expr").getExpr();
  }
  bool isForm(DictionaryAttr actual, DictionaryAttr other) {
    return llvm::is_contained(getForms(getSize(other)), getSize(actual)) &&
           llvm::all_of(ArrayRef<StringRef>{"min", "max", "why"},
                        [&](StringRef field) { return actual.get(field) == other.get(field); });
  }

  /// Returns whether the constraint may be missing. A step on preallocated caches has no minimum
  /// past, because the numbers of past tokens are an input. A step that brings no source tokens
  /// computes nothing of the source.
  bool mayBeMissing(DictionaryAttr constraint) {
    auto source = SourceCaches::lookup(step);
    auto minimum = constraint.getAs<IntegerAttr>("min");
    if (source && !source->each && !constraint.get("max") && minimum && minimum.getInt() == 1 &&
        getSize(constraint) == SymExpr::symbol(source->tokens))
      return true;
    auto before = StepSymbols::lookup(reference);
    return PreallocatedStep::lookup(step) && before && !constraint.get("max") &&
           mentions(getSize(constraint), before->past);
  }

  /// A lookup by positions in a step on preallocated caches: `size` of the `rows` rows of a table
  /// are used.
  struct Table {
    SymExpr size;
    int64_t rows;
    std::string weight; // empty if the table is not a weight
  };

  /// Returns the limit to which positions are clamped, such as the size in `min(position, size
  /// "capacity + 1")`.
  static std::optional<SymExpr> getLimit(Value index, StringRef capacity) {
    while (Operation *op = index.getDefiningOp()) {
      if (auto min = dyn_cast<MinOp>(op)) {
        for (Value operand : min->getOperands()) {
          while (operand.getDefiningOp<ExpandOp>() || operand.getDefiningOp<ReshapeOp>())
            operand = operand.getDefiningOp()->getOperand(0);
          auto size = operand.getDefiningOp<SizeOp>();
          if (size && mentions(size.getExpr(), capacity))
            return size.getExpr();
        }
        return std::nullopt;
      }
      if (!isa<ReshapeOp, CastOp, ExpandOp, TransposeOp>(op))
        return std::nullopt;
      index = op->getOperand(0);
    }
    return std::nullopt;
  }

  SmallVector<Table> findTables() {
    SmallVector<Table> tables;
    auto preallocated = PreallocatedStep::lookup(step);
    if (preallocated)
      step.walk([&](LookupOpInterface lookup) {
        auto limit = getLimit(lookup.getLookupIndices(), preallocated->capacity);
        Value table = lookup.getLookupTable();
        auto rows = getSizes(table)[lookup.getLookupDims()[0]].asConstant();
        if (!limit || !rows)
          return;
        auto parameter = table.getDefiningOp<ParameterOp>();
        tables.push_back(
            {*limit + SymExpr(1), *rows, parameter ? parameter.getWeight().str() : ""});
      });
    return tables;
  }

  /// Returns whether all lookups are within the table if caches have this capacity. Limits of
  /// positions grow with the capacity.
  bool isWithin(const Table &table, int64_t capacity) const {
    auto rows = table.size.evaluate({{PreallocatedStep::lookup(step)->capacity, capacity}});
    return rows && *rows <= table.rows;
  }

  /// Returns the largest capacity that satisfies a constraint on the capacity; nothing for
  /// constraints on other symbols. The constrained size must grow with the capacity.
  std::optional<int64_t> getLargestCapacity(DictionaryAttr constraint) const {
    auto preallocated = PreallocatedStep::lookup(step);
    auto maximum = constraint.getAs<IntegerAttr>("max");
    if (!preallocated || !maximum)
      return std::nullopt;
    auto accepts = [&](int64_t capacity) {
      auto size = getSize(constraint).evaluate({{preallocated->capacity, capacity}});
      return size && *size <= maximum.getInt();
    };
    int64_t accepted = 0, rejected = int64_t(1) << 40;
    if (!accepts(accepted) || accepts(rejected))
      return std::nullopt;
    while (rejected - accepted > 1) {
      int64_t middle = accepted + (rejected - accepted) / 2;
      (accepts(middle) ? accepted : rejected) = middle;
    }
    return accepted;
  }

  int64_t getLargestCapacity(ArrayRef<DictionaryAttr> constraints) const {
    int64_t largest = 1 << 20; // if no constraint limits it
    for (DictionaryAttr constraint : constraints)
      largest = std::min(largest, getLargestCapacity(constraint).value_or(largest));
    return largest;
  }

  /// Returns whether the constraint names the table and is exactly its limit on the capacity.
  bool isOf(const Table &table, DictionaryAttr constraint) const {
    auto minimum = constraint.getAs<IntegerAttr>("min"),
         maximum = constraint.getAs<IntegerAttr>("max");
    auto why = constraint.getAs<StringAttr>("why");
    std::string rows = " has " + std::to_string(table.rows) + " rows";
    if (!minimum || minimum.getInt() != 0 || !maximum || !why ||
        (table.weight.empty()
             ? !why.getValue().starts_with("table ") || !why.getValue().ends_with(rows)
             : why.getValue() != "table " + table.weight + rows))
      return false;
    if (getSize(constraint) == table.size)
      return maximum.getInt() == table.rows;
    std::optional<int64_t> largest = getLargestCapacity(constraint);
    return largest && isWithin(table, *largest) && !isWithin(table, *largest + 1);
  }

  LogicalResult compareConstraints() {
    SmallVector<DictionaryAttr> actual = getConstraints(step), other = getConstraints(reference);
    for (DictionaryAttr wanted : other)
      if (!mayBeMissing(wanted) &&
          llvm::none_of(actual, [&](DictionaryAttr have) { return isForm(have, wanted); }))
        return emitError(step.getLoc())
               << "'" << kConstraintsAttr << "' of the step lacks its reference's " << wanted
               << ": runs would accept other sizes";
    SmallVector<Table> tables = findTables();
    for (const Table &table : tables)
      if (!isWithin(table, getLargestCapacity(actual)) &&
          llvm::none_of(actual, [&](DictionaryAttr have) {
            auto maximum = have.getAs<IntegerAttr>("max");
            return getSize(have) == table.size && maximum && maximum.getInt() <= table.rows;
          }))
        return emitError(step.getLoc())
               << "'" << kConstraintsAttr << "' of the step does not limit " << table.size.str()
               << " to the " << table.rows << " rows of table '" << table.weight << "'";
    for (DictionaryAttr have : actual)
      if (llvm::none_of(tables, [&](const Table &table) { return isOf(table, have); }) &&
          llvm::none_of(other, [&](DictionaryAttr wanted) { return isForm(have, wanted); }))
        return emitError(step.getLoc()) << "'" << kConstraintsAttr << "' of the step has " << have
                                        << ", which nothing in its reference requires";
    return success();
  }

  ModuleOp reference, step;
};
} // namespace

LogicalResult mlir::tpc::verifyStepFacts(ModuleOp reference, ModuleOp step) {
  return failure(failed(StepComparison(reference, step).run()) || failed(checkStep(step)));
}
