//===- OutlineKernels.cpp - Outlining of op clusters as kernels -----------===//

#include "KernelClusters.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct OutlineKernels : mlir::tpc::impl::OutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override;
  void outline(Block &block);
  func::FuncOp getKernel(const Node &node, const KernelClusters &clusters,
                         SmallVectorImpl<Value> &operands);

  llvm::StringMap<func::FuncOp> kernels; // by printed body, to share equal kernels
  std::optional<SymbolTable> symbols;
};
} // namespace

static std::string nameKernel(const Node &node) {
  std::string name = "kernel";
  for (Operation *op : ArrayRef(node.ops).take_back(4))
    name += "_" + op->getName().stripDialect().str();
  return name;
}

// Returns the kernel function of a node, which nodes with equal ops share, and the operands of the
// call.
func::FuncOp OutlineKernels::getKernel(const Node &node, const KernelClusters &clusters,
                                       SmallVectorImpl<Value> &operands) {
  MLIRContext *context = &getContext();
  llvm::SetVector<Value> inputs;
  std::function<void(Operation *)> collect = [&](Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && llvm::is_contained(node.ops, producer))
        continue;
      if (clusters.isGenerated(operand))
        collect(producer);
      else
        inputs.insert(operand);
    }
  };
  llvm::for_each(node.ops, collect);
  operands.assign(inputs.begin(), inputs.end());

  SmallVector<Type> types, results;
  for (Value v : inputs)
    types.push_back(v.getType());
  for (Value v : node.results)
    results.push_back(v.getType());
  OpBuilder b(context);
  Location loc = node.ops.back()->getLoc();
  auto function = func::FuncOp::create(loc, "kernel", b.getFunctionType(types, results));
  function.setPrivate();
  function->setAttr(kKernelAttr, b.getI64IntegerAttr(node.rows.size()));
  for (auto [i, v] : llvm::enumerate(inputs))
    if (auto columns = getResultColumns(v)) {
      SmallVector<SymExpr> sizes = getLocalSizes(v.getType(), MeshAttr::lookup(columns->matmul));
      Attribute rows[] = {b.getI64IntegerAttr(*countRowDims(sizes, columns->rows)),
                          SymExprAttr::get(context, columns->stride)};
      function.setArgAttr(i, kRowStrideAttr, b.getArrayAttr(rows));
    }
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  IRMapping map;
  map.map(operands, body->getArguments());
  std::function<void(Operation *)> clone = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!map.contains(operand))
        clone(operand.getDefiningOp());
    b.clone(*op, map);
  };
  llvm::for_each(node.ops, clone);
  SmallVector<Value> returned;
  for (Value v : node.results)
    returned.push_back(map.lookup(v));
  func::ReturnOp::create(b, loc, returned);

  std::string text;
  llvm::raw_string_ostream os(text);
  function.print(os, OpPrintingFlags().enableDebugInfo(false).useLocalScope());
  auto [it, isNew] = kernels.try_emplace(text, function);
  if (!isNew) {
    function.erase();
    return it->second;
  }
  function.setName(nameKernel(node));
  symbols->insert(function);
  return function;
}

void OutlineKernels::outline(Block &block) {
  KernelClusters clusters(block);
  SmallVector<Node> nodes = clusters.getNodes();
  // Moves all nodes in topological order to the end of the block. The original ops become dead.
  Operation *terminator =
      !block.empty() && block.back().hasTrait<OpTrait::IsTerminator>() ? &block.back() : nullptr;
  for (const Node &node : nodes)
    for (Operation *op : node.ops)
      op->moveBefore(&block, terminator ? terminator->getIterator() : block.end());
  // Generated values keep their definitions, so that later kernels can clone them.
  for (const Node &node : nodes) {
    if (!node.isKernel || node.results.empty())
      continue;
    SmallVector<Value> operands;
    func::FuncOp kernel = getKernel(node, clusters, operands);
    OpBuilder b(node.ops.back());
    b.setInsertionPointAfter(node.ops.back());
    auto call = func::CallOp::create(b, node.ops.back()->getLoc(), kernel, operands);
    for (auto [stored, result] : llvm::zip_equal(node.results, call.getResults())) {
      Value old = stored;
      old.replaceUsesWithIf(result, [&](OpOperand &use) {
        // Uses of generated values by later kernels are not replaced.
        return !clusters.isGenerated(old) || !isa<KernelOpInterface>(use.getOwner()) ||
               clusters.isCall(use.getOwner());
      });
    }
  }
  // Repeats until no op is erased, because dead ops may be used by other dead ops.
  for (bool again = true; again;) {
    again = false;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      // Dead collectives are kept, because all ranks of a group must run them.
      if (isOpTriviallyDead(&op) && !isa<CollectiveOpInterface>(op)) {
        op.erase();
        again = true;
      }
  }
}

void OutlineKernels::runOnOperation() {
  symbols.emplace(getOperation());
  SmallVector<Block *> blocks;
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function->hasAttr(kKernelAttr)) {
      function.emitOpError() << "has '" << kKernelAttr << "' already: only this pass sets it";
      return signalPassFailure();
    }
    if (!function.isExternal())
      blocks.push_back(&function.front());
  }
  getOperation().walk([&](Operation *op) {
    if (isa<StageOp, MicroBatchesOp>(op))
      blocks.push_back(&op->getRegion(0).front());
  });
  for (Block *block : blocks)
    outline(*block);
}
