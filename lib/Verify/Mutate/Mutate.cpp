//===- Mutate.cpp - Seeded faults, to test the verifiers ------------------===//

#include "Mutate.h"

#include "tpc/Kernel/Kernel.h"
#include "tpc/Verify/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_MUTATE
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

Value Mutator::makeIsFirst(StringRef axis) {
  Location loc = builder.getUnknownLoc();
  auto factor =
      FactorAttr::get(context, ::tpc::SymExpr(sizeOf(axis)), {StringAttr::get(context, axis)});
  auto dist = DistAttr::get(context, {DimAttr::get(context, {factor})}).withLocal(true);
  auto type = makeTensorType(builder.getI64Type(), dist, grid);
  Value coordinate = IotaOp::create(builder, loc, type, 0);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value mine = tensor::ExtractOp::create(builder, loc, coordinate, ValueRange{zero});
  Value first = arith::ConstantIntOp::create(builder, loc, 0, 64);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, mine, first);
}

Value Mutator::makeZeros(Type type) {
  Location loc = builder.getUnknownLoc();
  Type element = getElementTypeOrSelf(type);
  auto scalar = RankedTensorType::get({}, element);
  auto value = DenseElementsAttr::get(scalar, cast<TypedAttr>(builder.getZeroAttr(element)));
  return ExpandOp::create(builder, loc, type, ConstantOp::create(builder, loc, scalar, value));
}

void Mutator::wrapInBranch(Operation *op, StringRef axis) {
  builder.setInsertionPoint(op);
  Value condition = makeIsFirst(axis);
  auto branch = scf::IfOp::create(builder, op->getLoc(), op->getResultTypes(), condition,
                                  /*withElseRegion=*/op->getNumResults() > 0);
  op->replaceAllUsesWith(branch.getResults());
  OpBuilder::InsertionGuard guard(builder);
  if (op->getNumResults() == 0) {
    op->moveBefore(branch.thenBlock()->getTerminator());
    return;
  }
  builder.setInsertionPointToEnd(branch.elseBlock());
  Value zeros = makeZeros(op->getResult(0).getType());
  scf::YieldOp::create(builder, op->getLoc(), zeros);
  op->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, op->getLoc(), op->getResults());
}

namespace {
struct Mutate : public mlir::tpc::impl::MutateBase<Mutate> {
  using MutateBase::MutateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // MLIR parses "kind=rank-branch,seed=3" as one option, a list.
    std::string kind = this->kind.empty() ? std::string() : this->kind[0];
    uint64_t seed = 0;
    for (const std::string &item : llvm::drop_begin(this->kind, this->kind.empty() ? 0 : 1))
      if (StringRef text(item); !text.consume_front("seed=") || text.getAsInteger(10, seed)) {
        emitError(module.getLoc()) << "tpc-mutate: '" << item << "' is not seed=N";
        return signalPassFailure();
      }
    SmallVector<Mutation> all(getCommunicationMutations());
    llvm::append_range(all, getScheduleMutations());
    llvm::append_range(all, getComputationMutations());
    llvm::append_range(all, getAttentionMutations());
    llvm::append_range(all, getExpertMutations());
    llvm::append_range(all, getQuantizedMutations());
    llvm::append_range(all, getTrainingMutations());
    llvm::append_range(all, getGradientMutations());
    llvm::append_range(all, getLossMutations());
    llvm::append_range(all, getStepMutations());
    llvm::append_range(all, getPreallocatedMutations());
    llvm::append_range(all, getBufferMutations());
    llvm::append_range(all, getUpdateMutations());
    llvm::append_range(all, getStartMutations());
    llvm::append_range(all, getColumnMutations());
    llvm::append_range(all, getKernelMutations());
    llvm::append_range(all, getNumberMutations());
    llvm::append_range(all, getLimitMutations());
    llvm::append_range(all, getFactMutations());
    llvm::append_range(all, getStepFactMutations());
    llvm::append_range(all, getConstantMutations());
    llvm::append_range(all, getArithmeticMutations());
    if (kind == "list") {
      for (const Mutation &mutation : all)
        llvm::outs() << mutation.name << ": " << mutation.what << "\n";
      return;
    }
    auto *mutation = llvm::find_if(all, [&](const Mutation &m) { return m.name == kind; });
    if (mutation == all.end()) {
      emitError(module.getLoc()) << "tpc-mutate: there is no kind '" << kind
                                 << "'; kind=list prints all";
      return signalPassFailure();
    }
    Mutator mutator(module, seed);
    if (!mutation->apply(mutator)) {
      emitError(module.getLoc()) << "tpc-mutate: the program has no location for '" << kind << "'";
      return signalPassFailure();
    }
    Location loc = mutator.location ? mutator.location->getLoc() : module.getLoc();
    std::string name = getSourceName(loc);
    llvm::errs() << "mutated: " << kind << (name.empty() ? "" : " at '" + name + "'") << "\n";
    eraseUnused(module);
  }

  /// Erases operations of kernels whose results are not used. They would be an error in themselves.
  static void eraseUnused(ModuleOp module) {
    module.walk([](kernel::FuncOp function) {
      bool hasErased = true;
      while (std::exchange(hasErased, false))
        function.walk([&](Operation *op) {
          if (op->getNumResults() && isOpTriviallyDead(op)) {
            op->erase();
            hasErased = true;
          }
        });
    });
  }
};
} // namespace
