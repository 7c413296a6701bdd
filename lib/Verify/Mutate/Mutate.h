//===- Mutate.h - Seeded faults ---------------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_MUTATE_MUTATE_H
#define TPC_LIB_VERIFY_MUTATE_MUTATE_H

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::mutate {

/// A program and the location of a fault: the seed selects one of all possible locations.
class Mutator {
public:
  Mutator(ModuleOp module, uint64_t seed)
      : module(module), context(module.getContext()), grid(MeshAttr::lookup(module)),
        builder(module.getContext()), seed(seed) {}

  /// Returns all matching ops of a kind, in program order.
  template <typename OpT> SmallVector<OpT> find(llvm::function_ref<bool(OpT)> fits) {
    SmallVector<OpT> found;
    module.walk([&](OpT op) {
      if (fits(op))
        found.push_back(op);
    });
    return found;
  }
  /// Returns the matching op that the seed selects, and sets the insertion point before it; null
  /// without a match.
  template <typename OpT> OpT pick(llvm::function_ref<bool(OpT)> fits) {
    return choose(ArrayRef<OpT>(find<OpT>(fits)));
  }
  template <typename OpT> OpT pickAny() {
    return pick<OpT>([](OpT) { return true; });
  }
  template <typename OpT> OpT choose(ArrayRef<OpT> list) {
    if (list.empty())
      return {};
    OpT op = list[seed % list.size()];
    location = op;
    builder.setInsertionPoint(op);
    return op;
  }
  /// Returns a pseudorandom number in [0, n) that is independent of the location.
  uint64_t draw(uint64_t n) const { return (seed * 0x9e3779b97f4a7c15u >> 33) % n; }
  template <typename ListT> decltype(auto) drawFrom(ListT &list) const {
    return list[draw(list.size())];
  }

  int64_t sizeOf(StringRef axis) const { return grid ? grid.getAxisSize(axis) : 1; }
  /// Creates a boolean that is true on ranks with coordinate 0 on `axis`.
  Value makeIsFirst(StringRef axis);
  /// Creates a constant of zeros.
  Value makeZeros(Type type);
  /// Replaces `op`, which has at most one result, by a branch that only ranks with coordinate 0 on
  /// `axis` take; the others get zeros.
  void wrapInBranch(Operation *op, StringRef axis);

  ModuleOp module;
  MLIRContext *context;
  MeshAttr grid;
  OpBuilder builder;
  uint64_t seed;
  Operation *location = nullptr;
};

/// Returns an expression plus a constant.
inline buffer::ExprAttr add(Mutator &m, buffer::ExprAttr expr, int64_t constant) {
  return buffer::ExprAttr::get(m.context, expr.getExpr() + ::tpc::SymExpr(constant));
}

/// Returns the buffers that an op on buffers writes.
SmallVector<OpOperand *> getWrites(Operation *op);
/// Returns other buffers that an op could use instead of `buffer`.
SmallVector<Value> getOthers(Operation *op, Value buffer, bool ofEqualExtent);

/// A kind of fault. The function returns false if the program has no location for it.
struct Mutation {
  StringRef name, what;
  bool (*apply)(Mutator &);
};

/// Attention ops and the corresponding calls on buffers. Both get the same fault; otherwise
/// tpc-verify-buffers would reject the program before it is run.
struct AttentionPairs {
  SmallVector<AttentionOp> ops;
  SmallVector<buffer::AttentionOp> calls;

  bool empty() const { return ops.empty(); }
};

/// All matching attention ops.
AttentionPairs findAttentions(Mutator &m, llvm::function_ref<bool(AttentionOp)> fits);
/// Changes the window of each attention op that has a window; 0 removes the window.
void changeWindows(Mutator &m, const AttentionPairs &all,
                   llvm::function_ref<int64_t(int64_t)> change);
/// Makes up to `by` later keys visible to the queries of causal attention.
void moveEdge(Mutator &m, const AttentionPairs &all, int64_t by);

/// Exchanges the keys and values of an attention op or of its gradient.
template <typename OpT> bool swapKeysValues(Mutator &m) {
  auto op = m.pick<OpT>([](OpT one) {
    return one.getK().getType() == one.getV().getType() && one.getK() != one.getV();
  });
  if (!op)
    return false;
  Value k = op.getK();
  op.getKMutable().assign(op.getV());
  op.getVMutable().assign(k);
  return true;
}

ArrayRef<Mutation> getCommunicationMutations();
/// Pipelines with a schedule.
ArrayRef<Mutation> getScheduleMutations();
ArrayRef<Mutation> getComputationMutations();
ArrayRef<Mutation> getAttentionMutations();
/// Mixtures of experts, at the staged level and on buffers.
ArrayRef<Mutation> getExpertMutations();
ArrayRef<Mutation> getQuantizedMutations();
/// Training steps at the staged level.
ArrayRef<Mutation> getTrainingMutations();
/// Backward programs of models.
ArrayRef<Mutation> getGradientMutations();
ArrayRef<Mutation> getLossMutations();
/// Generation steps.
ArrayRef<Mutation> getStepMutations();
/// Generation steps with preallocated caches.
ArrayRef<Mutation> getPreallocatedMutations();
/// Programs on buffers.
ArrayRef<Mutation> getBufferMutations();
ArrayRef<Mutation> getUpdateMutations();
/// Merged results in one buffer, and kernels that read them.
ArrayRef<Mutation> getColumnMutations();
/// Started collectives, at the staged level and on buffers.
ArrayRef<Mutation> getStartMutations();
ArrayRef<Mutation> getKernelMutations();
/// Precision of kernels, and special values.
ArrayRef<Mutation> getNumberMutations();
/// Windows, caps and edges of masks, at all levels.
ArrayRef<Mutation> getLimitMutations();
/// Facts of a program, at all levels.
ArrayRef<Mutation> getFactMutations();
ArrayRef<Mutation> getStepFactMutations();
/// Kernels, and tensor functions together with the kernels that compute them.
ArrayRef<Mutation> getConstantMutations();
/// Kernels and frames, at sizes that no small run has.
ArrayRef<Mutation> getArithmeticMutations();

} // namespace mlir::tpc::mutate

#endif // TPC_LIB_VERIFY_MUTATE_MUTATE_H
