//===- Verify.h - Proofs about partitioned programs -------------*- C++ -*-===//

#ifndef TPC_VERIFY_VERIFY_H
#define TPC_VERIFY_VERIFY_H

#include "tpc/Dialect/OpConcern.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::tpc {

/// What later levels are compared with; shared by the passes that record it and those that compare.
struct ReferenceModel {
  OwningOpRef<ModuleOp> module; // the model, before it is partitioned
  OwningOpRef<ModuleOp> staged; // the staged program, before it is lowered
};

/// Keeps a copy of the module in `reference`, as the model or as the staged program. They have no
/// flags: they make sense within one compilation.
std::unique_ptr<Pass> createRecordReference(std::shared_ptr<ReferenceModel> reference);
std::unique_ptr<Pass> createRecordStaged(std::shared_ptr<ReferenceModel> reference);
struct EquivalenceMethods {
  bool symbolic = true;  // a proof for all sizes
  bool interpret = true; // both programs run at small sizes over a prime field
  bool report = false;   // prints what that run has exercised
};

/// As `tpc-verify-equivalence`, but the model is the recorded one.
std::unique_ptr<Pass> createVerifyEquivalence(std::shared_ptr<ReferenceModel> reference,
                                              EquivalenceMethods methods = {});

/// Shows that `program` computes what `model` does; errors say where it does not, or what
/// cannot be proved. Where the programs cannot be run at small sizes, `skipped` says why; where
/// they are, `unexercised` is what such a run shows nothing of.
LogicalResult verifyEquivalence(ModuleOp model, ModuleOp program, EquivalenceMethods methods = {},
                                std::string *skipped = nullptr, std::string *unexercised = nullptr);

/// As `tpc-verify-generation`: shows that a step with caches repeats what `reference` computes, the
/// model or, where the step takes whole caches, the step that it was made of.
LogicalResult verifyGeneration(ModuleOp reference, ModuleOp step, EquivalenceMethods methods = {});

/// The part of it that needs no model: each value on a rank is, of some whole value, the part that
/// its type says.
LogicalResult verifyDistribution(ModuleOp program);

/// As `tpc-verify-facts`, of what a program says beside its ops. Either reference may be null.
LogicalResult verifyFacts(ModuleOp program, ModuleOp model, ModuleOp staged);
std::unique_ptr<Pass> createVerifyFacts(std::shared_ptr<ReferenceModel> reference);
/// Its parts. Names, defaults and types of inputs and outputs, constraints, step, source, weights
/// and caches are the model's.
LogicalResult compareFacts(ModuleOp program, ModuleOp model);
/// Those and all other attributes of a program on kernels or buffers are the staged program's.
LogicalResult compareLoweredFacts(ModuleOp lowered, ModuleOp staged);
/// The facts of a step follow from those of the model, or of a placed step from the step's.
LogicalResult verifyStepFacts(ModuleOp reference, ModuleOp step);
/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFactTable(llvm::raw_ostream &os);

/// As `tpc-verify-lowered`, but the model and the staged program are the recorded ones.
std::unique_ptr<Pass> createVerifyLowered(std::shared_ptr<ReferenceModel> reference);
/// Attaches what ops on buffers do when they are run at small sizes.
void registerLoweredRuns(DialectRegistry &registry);

/// Attaches what verifiers and the reference interpreter know of each op.
void registerVerification(DialectRegistry &registry);
llvm::SmallVector<OpConcern> getVerificationConcerns();
/// And what ops make of tokens that come in pieces.
void registerGenerationVerification(DialectRegistry &registry);
/// And what each op of a staged program is on buffers.
void registerBufferVerification(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_VERIFY_VERIFY_H
