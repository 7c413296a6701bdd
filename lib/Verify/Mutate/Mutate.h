//===- Mutate.h - Seeded mistakes -------------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_MUTATE_MUTATE_H
#define TPC_LIB_VERIFY_MUTATE_MUTATE_H

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::mutate {

/// A program, and where in it a mistake goes: of all places that fit, the seed's.
class Mutator {
public:
  Mutator(ModuleOp module, uint64_t seed)
      : module(module), context(module.getContext()), grid(GridAttr::lookup(module)),
        builder(module.getContext()), seed(seed) {}

  /// All ops of a kind that fit, in the order of the program.
  template <typename OpT> SmallVector<OpT> find(llvm::function_ref<bool(OpT)> fits) {
    SmallVector<OpT> found;
    module.walk([&](OpT op) {
      if (fits(op))
        found.push_back(op);
    });
    return found;
  }
  /// One of them, with the builder in front of it; null if there is none.
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
    place = op;
    builder.setInsertionPoint(op);
    return op;
  }
  /// A number in [0, n) that is independent of the place.
  uint64_t draw(uint64_t n) const { return (seed * 0x9e3779b97f4a7c15u >> 33) % n; }
  template <typename ListT> decltype(auto) drawFrom(ListT &list) const {
    return list[draw(list.size())];
  }

  int64_t sizeOf(StringRef axis) const { return grid ? grid.getAxisSize(axis) : 1; }
  /// A truth value that differs along an axis: "is my coordinate 0?"
  Value makeIsFirst(StringRef axis);
  /// Zeros of a type.
  Value makeZeros(Type type);
  /// Replaces `op`, which has at most one result, by a branch that only ranks with coordinate 0 on
  /// `axis` take; the others get zeros.
  void wrapInBranch(Operation *op, StringRef axis);

  ModuleOp module;
  MLIRContext *context;
  GridAttr grid;
  OpBuilder builder;
  uint64_t seed;
  Operation *place = nullptr;
};

/// Makes a mistake; false if there is no place for it.
struct Mutation {
  StringRef name, what;
  bool (*apply)(Mutator &);
};

/// Attention on tensors, with the calls on buffers that do the same: these get the same faults, or
/// tpc-verify-buffers would refuse a program before it is run.
struct Attentions {
  SmallVector<AttentionOp> ops;
  SmallVector<buffer::AttentionOp> calls;

  bool empty() const { return ops.empty(); }
};

/// All attention that fits.
Attentions findAttentions(Mutator &m, llvm::function_ref<bool(AttentionOp)> fits);
/// Gives each attention that has a window another one, or none for 0.
void changeWindows(Mutator &m, const Attentions &all, llvm::function_ref<int64_t(int64_t)> change);
/// Lets the queries of causal attention see keys up to `by` later ones.
void moveEdge(Mutator &m, const Attentions &all, int64_t by);

ArrayRef<Mutation> getCommunicationMutations();
ArrayRef<Mutation> getComputationMutations();
ArrayRef<Mutation> getAttentionMutations();
/// In a step of a generation.
ArrayRef<Mutation> getStepMutations();
/// In a placed step of a generation.
ArrayRef<Mutation> getPlacedMutations();
/// In a program on buffers.
ArrayRef<Mutation> getBufferMutations();
ArrayRef<Mutation> getKernelMutations();
/// Of the precision of kernels, and of special values.
ArrayRef<Mutation> getNumberMutations();
/// Of windows, caps and edges of masks, at all levels.
ArrayRef<Mutation> getLimitMutations();
/// In what a program of any level says beside its ops.
ArrayRef<Mutation> getFactMutations();
ArrayRef<Mutation> getStepFactMutations();
/// In kernels, and in functions of tensors with what was made of them.
ArrayRef<Mutation> getConstantMutations();
/// In kernels and frames, at sizes that no small run has.
ArrayRef<Mutation> getArithmeticMutations();

} // namespace mlir::tpc::mutate

#endif // TPC_LIB_VERIFY_MUTATE_MUTATE_H
