//===- Verify.h - Proofs about partitioned programs -------------*- C++ -*-===//

#ifndef TPC_VERIFY_VERIFY_H
#define TPC_VERIFY_VERIFY_H

#include "tpc/Dialect/OpConcern.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::tpc {

/// The model as it was before it was partitioned; shared by the pass that records it and those
/// that compare with it.
struct ReferenceModel {
  OwningOpRef<ModuleOp> module;
};

/// Keeps a copy of the module in `reference`. It has no flag: it makes sense within one
/// compilation.
std::unique_ptr<Pass> createRecordReference(std::shared_ptr<ReferenceModel> reference);
struct EquivalenceMethods {
  bool symbolic = true;  // a proof for all sizes
  bool interpret = true; // both programs run at small sizes over a prime field
};

/// As `tpc-verify-equivalence`, but the model is the recorded one.
std::unique_ptr<Pass> createVerifyEquivalence(std::shared_ptr<ReferenceModel> reference,
                                              EquivalenceMethods methods = {});

/// Shows that `program` computes what `model` does; errors say where it does not, or what
/// cannot be proved. Where the programs cannot be run at small sizes, `skipped` says why.
LogicalResult verifyEquivalence(ModuleOp model, ModuleOp program, EquivalenceMethods methods = {},
                                std::string *skipped = nullptr);

/// The part of it that needs no model: each value on a rank is, of some whole value, the part that
/// its type says.
LogicalResult verifyDistribution(ModuleOp program);

/// Attaches what verifiers and the reference interpreter know of each op.
void registerVerification(DialectRegistry &registry);
llvm::SmallVector<OpConcern> getVerificationConcerns();
/// And what each op of a staged program is on buffers.
void registerBufferVerification(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_VERIFY_VERIFY_H
