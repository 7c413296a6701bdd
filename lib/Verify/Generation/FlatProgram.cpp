//===- FlatProgram.cpp - Inlining of all calls ----------------------------===//

#include "FlatProgram.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;

namespace {
class Flattener {
public:
  explicit Flattener(ModuleOp module) : module(module), builder(module.getContext()) {}

  LogicalResult run() {
    func::FuncOp main = getMain(module);
    if (!main || main.isExternal())
      return emitError(module.getLoc(), "there is no @main to compare");
    auto flat = func::FuncOp(main->cloneWithoutRegions());
    Block *body = flat.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    SmallVector<Value> results;
    if (failed(copy(main, SmallVector<Value>(body->getArguments()), results))) {
      flat->erase();
      return failure();
    }
    func::ReturnOp::create(builder, main.front().getTerminator()->getLoc(), results);
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      function->erase();
    module.push_back(flat);
    return success();
  }

private:
  /// Inlines the body of a function with these arguments.
  LogicalResult copy(func::FuncOp function, ArrayRef<Value> arguments,
                     SmallVectorImpl<Value> &results) {
    if (!llvm::hasSingleElement(function.getBody()) ||
        function.getNumArguments() != arguments.size() || depth >= maxDepth)
      return function.emitError() << "cannot be proved: @" << function.getName()
                                  << " has more than one block, is called with other "
                                     "arguments than it declares, or calls itself";
    ++depth;
    IRMapping map;
    map.map(function.getArguments(), arguments);
    auto get = [&](Value value) { return map.lookupOrDefault(value); };
    for (Operation &op : function.front()) {
      if (isa<func::ReturnOp>(op)) {
        results = llvm::map_to_vector(op.getOperands(), get);
        break;
      }
      auto call = dyn_cast<func::CallOp>(op);
      if (!call) {
        if (++steps > maxSteps)
          return function.emitError()
                 << "cannot be proved: calls expand to more than " << maxSteps << " ops";
        builder.clone(op, map);
        continue;
      }
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      SmallVector<Value> given = llvm::map_to_vector(call.getOperands(), get), found;
      if (!callee || callee.isExternal() || failed(copy(callee, given, found)) ||
          found.size() != call.getNumResults())
        return call.emitError() << "calls @" << call.getCallee()
                                << ", whose signature does not match";
      map.map(call.getResults(), found);
    }
    --depth;
    return success();
  }

  static constexpr size_t maxDepth = 512, maxSteps = 1 << 21;
  ModuleOp module;
  OpBuilder builder;
  size_t depth = 0, steps = 0;
};
} // namespace

FailureOr<OwningOpRef<ModuleOp>> generation::inlineCalls(ModuleOp module) {
  OwningOpRef<ModuleOp> flat = module.clone();
  if (failed(Flattener(*flat).run()))
    return failure();
  return flat;
}
