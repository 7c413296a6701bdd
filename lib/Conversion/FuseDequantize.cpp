//===- FuseDequantize.cpp - Matmuls that multiply by quantized parameters -===//

#include "QuantizedMatrices.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Conversion/Target/TargetTraits.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_FUSEDEQUANTIZE
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Ops that compute a value from parameters, in an order with operands first.
struct Chain {
  SmallVector<Operation *> ops;
  SmallVector<Value> parameters;
  std::string text; // equal for chains that differ only in parameters
  bool dequantizes = false;
};

struct FuseDequantize : mlir::tpc::impl::FuseDequantizeBase<FuseDequantize> {
  void runOnOperation() override;
  bool sink();
  void sink(func::FuncOp function, unsigned argument, ArrayRef<func::CallOp> calls,
            ArrayRef<Chain> chains);
};
} // namespace

static bool collect(Value value, const ParameterTable &parameters, Chain &chain) {
  llvm::raw_string_ostream os(chain.text);
  if (parameters.lookup(value)) {
    os << value.getType() << ';';
    chain.parameters.push_back(value);
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (!op || !(isa<DequantizeOp, ConstantOp>(op) || isa<MovementOpInterface>(op) || isWidening(op)))
    return false;
  chain.dequantizes |= isa<DequantizeOp>(op);
  os << op->getName() << op->getAttrDictionary() << value.getType() << '(';
  for (Value operand : op->getOperands())
    if (!collect(operand, parameters, chain))
      return false;
  os << ')';
  chain.ops.push_back(op);
  return true;
}

/// Clones the chain at the builder's insertion point, with other parameters.
static Value copy(OpBuilder &b, const Chain &chain, ValueRange parameters) {
  IRMapping map;
  map.map(chain.parameters, parameters);
  for (Operation *op : chain.ops)
    if (!map.contains(op->getResult(0)))
      b.clone(*op, map);
  return map.lookup(chain.ops.back()->getResult(0));
}

static void eraseDead(Operation *op) {
  if (!op || !isOpTriviallyDead(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    eraseDead(operand.getDefiningOp());
}

void FuseDequantize::sink(func::FuncOp function, unsigned argument, ArrayRef<func::CallOp> calls,
                          ArrayRef<Chain> chains) {
  OpBuilder b(function.getContext());
  b.setInsertionPointToStart(&function.front());
  SmallVector<Value> parameters;
  unsigned next = argument + 1;
  for (Value parameter : chains.front().parameters) {
    (void)function.insertArgument(next, parameter.getType(), {}, parameter.getLoc());
    parameters.push_back(function.getArgument(next++));
  }
  BlockArgument old = function.getArgument(argument);
  old.replaceAllUsesWith(copy(b, chains.front(), parameters));
  (void)function.eraseArgument(argument);
  for (auto [each, chain] : llvm::zip_equal(calls, chains)) {
    func::CallOp call = each;
    Operation *matrix = call.getOperand(argument).getDefiningOp();
    SmallVector<Value> operands(call.getOperands());
    operands.erase(operands.begin() + argument);
    operands.insert(operands.begin() + argument, chain.parameters.begin(), chain.parameters.end());
    call->setOperands(operands);
    eraseDead(matrix);
  }
}

/// Moves one chain into a function that receives the chain's result as an argument. Returns false
/// if there is no such function.
bool FuseDequantize::sink() {
  ModuleOp module = getOperation();
  ParameterTable parameters(module);
  llvm::MapVector<Operation *, SmallVector<func::CallOp>> callsOf;
  SymbolTableCollection symbols;
  module.walk([&](func::CallOp call) {
    callsOf[symbols.lookupNearestSymbolFrom(call, call.getCalleeAttr())].push_back(call);
  });
  for (auto &[op, calls] : callsOf) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      SmallVector<Chain> chains;
      for (func::CallOp call : calls)
        if (!collect(call.getOperand(argument.getArgNumber()), parameters, chains.emplace_back()) ||
            !chains.back().dequantizes || chains.back().text != chains.front().text)
          break;
      bool isChain = chains.size() == calls.size() && chains.back().dequantizes &&
                     chains.back().text == chains.front().text && !chains.back().ops.empty() &&
                     chains.back().ops.back()->getResult(0) ==
                         calls.back().getOperand(argument.getArgNumber());
      if (!isChain)
        continue;
      sink(function, argument.getArgNumber(), calls, chains);
      return true;
    }
  }
  return false;
}

void FuseDequantize::runOnOperation() {
  ModuleOp module = getOperation();
  WalkResult marked = module.walk([](Operation *op) {
    if (!op->hasAttr(kQuantizedAttr))
      return WalkResult::advance();
    op->emitOpError() << "has '" << kQuantizedAttr << "' already: only this pass sets it";
    return WalkResult::interrupt();
  });
  if (marked.wasInterrupted())
    return signalPassFailure();
  if (!TargetTraits::get(module).multipliesQuantized ||
      !module.walk([](DequantizeOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return;
  while (sink()) {
  }
  ParameterTable parameters(module);
  SmallVector<MatmulOp> matmuls;
  module.walk([&](MatmulOp matmul) { matmuls.push_back(matmul); });
  for (MatmulOp matmul : matmuls) {
    Chain chain;
    if (!getElementTypeOrSelf(matmul.getLhs()).isF32() ||
        !getElementTypeOrSelf(matmul.getType()).isF32() ||
        !getQuantizedMatrix(matmul.getRhs(), parameters) ||
        !collect(matmul.getRhs(), parameters, chain))
      continue;
    // The matmul gets a separate clone of the chain, because other users of the matrix still
    // need its dequantized values.
    OpBuilder b(matmul);
    Value old = matmul.getRhs(), cloned = copy(b, chain, chain.parameters);
    matmul.getRhsMutable().assign(cloned);
    eraseDead(old.getDefiningOp());
    std::optional<QuantizedMatrix> matrix = getQuantizedMatrix(cloned, parameters);
    for (Operation *op : matrix->ops)
      op->setAttr(kQuantizedAttr, b.getUnitAttr());
  }
}
