//===- KernelArithmetic.cpp - Number of float operations in kernels -------===//
//
// Runs with random numbers do not test every float operation of a kernel: x + n - n is nearly x
// where n is small, and a position is small in every run. Therefore a kernel may have, of each
// kind, only as many different float operations and folds as the ops of its tensor function
// require. Those of an element-wise op are the ones of its definition (ScalarOpInterface); a table
// has the others.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"

#include "tpc/Dialect/Quantized.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

namespace {
/// Number of operations by kind: the name of an op; of a fold, also its kind.
using Counts = std::map<std::string, unsigned>;

/// Numbers of values in a kernel: values that are computed in the same way from the same memory
/// have the same number, whatever the indices of elements. A kernel may compute a value several
/// times.
class ValueNumbers {
public:
  explicit ValueNumbers(kernel::FuncOp function);
  /// Different values of each kind of float operation and fold.
  Counts counts;

private:
  using Key = std::vector<const void *>;
  void visit(Operation *op);
  /// Returns the number of a value with this key. `isNew`: no value had it before.
  const void *find(Key key, bool *isNew = nullptr);
  const void *of(Value value) {
    auto it = numbers.find(value);
    return it == numbers.end() ? find({}) : it->second; // an index
  }
  void count(Operation *op, Key key);

  std::map<Key, unsigned> keys;
  DenseMap<Value, const void *> numbers;
  /// Number of the value that is stored in memory.
  DenseMap<Value, const void *> stored;
};
} // namespace

/// Whether an op of a kernel computes with floats.
static bool isFloatOperation(Operation *op) {
  if (isa<arith::ConstantOp, arith::SelectOp, arith::ExtFOp, arith::TruncFOp>(op) ||
      !isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return false;
  return llvm::any_of(op->getOperandTypes(), llvm::IsaPred<FloatType>);
}

static std::string getFoldName(kernel::FoldKind kind) {
  return ("tpc_kernel.fold " + kernel::stringifyFoldKind(kind)).str();
}

/// Returns the kind of an op that is counted; nothing for other ops.
static std::optional<std::string> getKind(Operation *op) {
  if (auto fold = dyn_cast<kernel::FoldOp>(op))
    return getFoldName(fold.getKind());
  return isFloatOperation(op) ? std::optional(op->getName().getStringRef().str()) : std::nullopt;
}

const void *ValueNumbers::find(Key key, bool *isNew) {
  auto [it, inserted] = keys.try_emplace(std::move(key), keys.size());
  if (isNew)
    *isNew = inserted;
  return &it->second;
}

ValueNumbers::ValueNumbers(kernel::FuncOp function) {
  function.walk<WalkOrder::PreOrder>([&](Operation *op) { visit(op); });
}

void ValueNumbers::count(Operation *op, Key key) {
  key.insert(key.begin(), op->getName().getAsOpaquePointer());
  for (NamedAttribute attr : op->getAttrs())
    key.push_back(attr.getValue().getAsOpaquePointer());
  for (Type type : op->getResultTypes())
    key.push_back(type.getAsOpaquePointer());
  bool isNew = false;
  const void *number = find(std::move(key), &isNew);
  for (Value result : op->getResults())
    numbers[result] = number;
  if (std::optional<std::string> kind = getKind(op); kind && isNew)
    ++counts[*kind];
}

void ValueNumbers::visit(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](memref::LoadOp load) {
        // Memory with one stored value is that value.
        auto it = stored.find(load.getMemRef());
        numbers[load.getResult()] = it != stored.end() && it->second
                                        ? it->second
                                        : find({load.getMemRef().getAsOpaquePointer()});
      })
      .Case([&](memref::StoreOp store) {
        const void *number = of(store.getValue());
        auto [it, isFirst] = stored.try_emplace(store.getMemRef(), number);
        if (!isFirst && it->second != number)
          it->second = nullptr;
      })
      .Case([&](kernel::YieldOp yield) { // the fold's term has been visited
        count(yield->getParentOp(), {of(yield.getTerm())});
      })
      .Case([&](scf::YieldOp yield) {
        Operation *parent = yield->getParentOp();
        if (parent->getNumResults() == 0)
          return;
        Key key = {parent->getName().getAsOpaquePointer()};
        Region *region = yield->getParentRegion();
        // The value of an if is determined by the values of both branches.
        if (auto condition = dyn_cast<scf::IfOp>(parent)) {
          if (region != &condition.getElseRegion())
            return;
          for (auto [i, result] : llvm::enumerate(condition.getResults()))
            numbers[result] =
                find({parent->getName().getAsOpaquePointer(), of(condition.getCondition()),
                      of(condition.thenYield().getOperand(i)), of(yield.getOperand(i))});
          return;
        }
        for (auto [i, result] : llvm::enumerate(parent->getResults()))
          numbers[result] = find({parent->getName().getAsOpaquePointer(), of(yield.getOperand(i))});
      })
      .Case<kernel::FoldOp, scf::ForOp, scf::IfOp, kernel::FuncOp, kernel::RowsOp,
            kernel::ElementsOp>([](Operation *) {})
      .Default([&](Operation *) {
        Key key;
        for (Value operand : op->getOperands())
          key.push_back(of(operand));
        // Values that are computed from indices, and conditions on them, are not distinguished.
        bool isPosition = llvm::all_of(op->getOperandTypes(), llvm::IsaPred<IndexType>) &&
                          llvm::is_contained(key, find({}));
        if (isPosition)
          for (Value result : op->getResults())
            numbers[result] = find({});
        else
          count(op, std::move(key));
      });
}

void lowered::buildDefinition(ScalarOpInterface op, Block &block) {
  for (Type type : op->getOperandTypes()) {
    Type element = getElementTypeOrSelf(type);
    if (element.isF16() || element.isBF16())
      element = Float32Type::get(op.getContext());
    else if (auto integer = dyn_cast<IntegerType>(element))
      element = IntegerType::get(op.getContext(), integer.getWidth());
    block.addArgument(element, op.getLoc());
  }
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(&block);
  op.buildScalar(builder, op.getLoc(), block.getArguments());
}

/// Adds the float operations of an element-wise op's definition.
static void addDefinition(Counts &counts, ScalarOpInterface op) {
  Block block;
  lowered::buildDefinition(op, block);
  block.walk([&](Operation *inner) {
    if (std::optional<std::string> kind = getKind(inner))
      ++counts[*kind];
  });
}

/// Returns the kind of a reduction's fold.
static kernel::FoldKind getFoldKind(ReduceOp reduce) {
  bool withoutSign = isUnsigned(reduce.getOperand().getType());
  switch (reduce.getFunction()) {
  case ReduceFunction::Max:
    return withoutSign ? kernel::FoldKind::UMax : kernel::FoldKind::Max;
  case ReduceFunction::Min:
    return withoutSign ? kernel::FoldKind::UMin : kernel::FoldKind::Min;
  case ReduceFunction::Sum:
  case ReduceFunction::Mean:
    return kernel::FoldKind::Sum;
  }
  llvm_unreachable("all functions are listed");
}

/// Adds the float operations and folds of an op on tensors.
static void addOperations(Counts &counts, Operation *op) {
  auto add = [&](StringRef kind, unsigned number) { counts[kind.str()] += number; };
  auto addFolds = [&](kernel::FoldKind kind, unsigned number) {
    counts[getFoldName(kind)] += number;
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ScalarOpInterface scalar) { addDefinition(counts, scalar); })
      // mean = sum x / n, variance = sum (x - mean)^2 / n,
      // (x - mean) * (1 / sqrt(variance + epsilon)) * scale + bias
      .Case([&](LayerNormOp) {
        addFolds(kernel::FoldKind::Sum, 2);
        add("arith.divf", 3);
        add("arith.subf", 1);
        add("arith.mulf", 3);
        add("arith.addf", 2);
        add("math.sqrt", 1);
      })
      // x * (1 / sqrt(sum x^2 / n + epsilon)) * scale
      .Case([&](RmsNormOp) {
        addFolds(kernel::FoldKind::Sum, 1);
        add("arith.divf", 2);
        add("arith.mulf", 3);
        add("arith.addf", 1);
        add("math.sqrt", 1);
      })
      // exp(x - maximum) * (1 / sum)
      .Case([&](SoftmaxOp) {
        addFolds(kernel::FoldKind::MaxNum, 1);
        addFolds(kernel::FoldKind::Sum, 1);
        add("arith.subf", 1);
        add("math.exp", 1);
        add("arith.divf", 1);
        add("arith.mulf", 1);
      })
      .Case([&](ReduceOp reduce) {
        addFolds(getFoldKind(reduce), 1);
        add("arith.divf", reduce.getFunction() == ReduceFunction::Mean);
      })
      .Case([&](CumSumOp) { add("arith.addf", 1); })
      // x * cos + other * (+-sin)
      .Case([&](RotaryOp) {
        add("arith.negf", 1);
        add("arith.mulf", 2);
        add("arith.addf", 1);
      })
      // (q - offset - zero) * scale
      .Case([&](DequantizeOp) {
        add("arith.subf", 2);
        add("arith.mulf", 1);
      })
      .Case([&](MatmulOp) {
        addFolds(kernel::FoldKind::Sum, 1);
        add("arith.mulf", 1);
        add("arith.addf", 1);
      })
      // A row is added only if the number of ids that select it is not 0.
      .Case([&](ScatterAddOp) {
        addFolds(kernel::FoldKind::Sum, 2);
        add("arith.cmpf", 1);
      });
}

/// Returns the largest number of integer operations, one on the result of the other, that compute
/// a value from loaded elements, indices and sizes.
static unsigned getDepth(Value value, DenseMap<Value, unsigned> &depths) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.getType().isIntOrIndex() || isa<memref::LoadOp, kernel::FoldOp>(op))
    return 0;
  auto [it, isNew] = depths.try_emplace(value, 0);
  if (!isNew)
    return it->second;
  unsigned depth = 0;
  SmallVector<Value> operands(op->getOperands());
  if (auto branch = dyn_cast<scf::IfOp>(op); branch && !branch.getElseRegion().empty()) {
    llvm::append_range(operands, branch.thenYield().getOperands());
    llvm::append_range(operands, branch.elseYield().getOperands());
  }
  for (Value operand : operands)
    depth = std::max(depth, getDepth(operand, depths));
  bool counts =
      isa<arith::ArithDialect>(op->getDialect()) && !isa<CastOpInterface, arith::ConstantOp>(op);
  return depths[value] = depth + counts;
}

/// Returns the largest depth that the ops of a tensor function require. An op that moves elements
/// needs up to three operations for an index.
static unsigned getMaxDepth(func::FuncOp tensors) {
  constexpr unsigned ofAccesses = 8, ofMove = 3;
  unsigned depth = ofAccesses;
  tensors.walk([&](Operation *op) {
    depth += ofMove;
    if (auto scalar = dyn_cast<ScalarOpInterface>(op)) {
      Block block;
      buildDefinition(scalar, block);
      depth += llvm::count_if(block, [](Operation &inner) {
        return llvm::all_of(inner.getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
      });
    }
  });
  return depth;
}

LogicalResult lowered::checkArithmetic(kernel::FuncOp function, func::FuncOp tensors) {
  auto error = [&](Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName() << ": ";
  };
  Counts want;
  tensors.walk([&](Operation *op) { addOperations(want, op); });
  ValueNumbers have(function);
  for (auto [kind, count] : have.counts) {
    auto it = want.find(kind);
    unsigned expected = it == want.end() ? 0 : it->second;
    if (count > expected)
      return error(function) << "it computes " << count << " different values by '" << kind
                             << "', but its tensor function requires at most " << expected;
  }
  // Small runs do not detect a long chain of additions: 2^40 * row, or row - n - ... - n.
  unsigned limit = getMaxDepth(tensors);
  bool hasLoop = !tensors.front().getOps<CumSumOp>().empty();
  DenseMap<Value, unsigned> depths;
  WalkResult result = function.walk([&](Operation *op) -> WalkResult {
    if (op->getNumResults() && op->use_empty() && isMemoryEffectFree(op))
      return error(op) << "nothing uses its result";
    if (isa<scf::ForOp>(op) && !hasLoop)
      return error(op) << "no op of its tensor function needs a loop";
    for (Value result : op->getResults())
      if (unsigned depth = getDepth(result, depths); depth > limit)
        return error(op) << "its integers are computed by " << depth
                         << " operations, one after the other, but its tensor function requires at "
                         << "most " << limit;
    return success();
  });
  return failure(result.wasInterrupted());
}
