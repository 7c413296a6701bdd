//===- Verify.h - Verification of partitioned programs ----------*- C++ -*-===//

#ifndef TPC_VERIFY_VERIFY_H
#define TPC_VERIFY_VERIFY_H

#include "tpc/Dialect/CoverageColumn.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::tpc {

/// References for later levels; shared by the passes that record them and the passes that compare.
struct ReferenceModel {
  OwningOpRef<ModuleOp> module; // the model, before it is partitioned
  OwningOpRef<ModuleOp> staged; // the staged program, before it is lowered
};

/// Create passes that store a copy of the module in `reference`, as the model or as the staged
/// program. They have no flags, as they are useful only within one compilation.
std::unique_ptr<Pass> createRecordReference(std::shared_ptr<ReferenceModel> reference);
std::unique_ptr<Pass> createRecordStaged(std::shared_ptr<ReferenceModel> reference);
struct EquivalenceMethods {
  bool symbolic = true;  // a proof for all sizes
  bool interpret = true; // both programs run at small sizes over a prime field
  bool report = false;   // prints the coverage of that run
};

/// Creates `tpc-verify-equivalence` with the recorded model.
std::unique_ptr<Pass> createVerifyEquivalence(std::shared_ptr<ReferenceModel> reference,
                                              EquivalenceMethods methods = {});

/// Proves that `program` computes the same as `model`; emits errors where it does not, or where it
/// cannot be proved.
/// If the programs cannot be run at small sizes, `skipped` receives the reason; else `unexercised`
/// receives the parts that the run does not cover.
LogicalResult verifyEquivalence(ModuleOp model, ModuleOp program, EquivalenceMethods methods = {},
                                std::string *skipped = nullptr, std::string *unexercised = nullptr);

/// Implements `tpc-verify-generation`: proves that a step with caches computes the same as
/// `reference`, the model or, for a step on preallocated caches, the original step.
LogicalResult verifyGeneration(ModuleOp reference, ModuleOp step, EquivalenceMethods methods = {});

/// Verifies distributions only, which needs no model: each value on a rank is the part of a whole
/// value that its type specifies.
LogicalResult verifyDistribution(ModuleOp program);

/// Implements `tpc-verify-facts`. Either reference may be null.
LogicalResult verifyFacts(ModuleOp program, ModuleOp model, ModuleOp staged);
std::unique_ptr<Pass> createVerifyFacts(std::shared_ptr<ReferenceModel> reference);
/// Checks that names, defaults and types of inputs and outputs, constraints, step, source, weights
/// and caches are the model's.
LogicalResult compareFacts(ModuleOp program, ModuleOp model);
/// Checks that these and all other attributes of a program on kernels or buffers are the staged
/// program's.
LogicalResult compareLoweredFacts(ModuleOp lowered, ModuleOp staged);
/// Checks that the facts of a step follow from the model's, or those of a step on preallocated
/// caches from the original step's.
LogicalResult verifyStepFacts(ModuleOp reference, ModuleOp step);
/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFactTable(llvm::raw_ostream &os);

/// Creates `tpc-verify-lowered` with the recorded model and staged program.
std::unique_ptr<Pass> createVerifyLowered(std::shared_ptr<ReferenceModel> reference);
/// Attaches the semantics of buffer ops for runs at small sizes.
void registerLoweredRuns(DialectRegistry &registry);

/// Attaches the models of verifiers and the reference interpreter to ops.
void registerVerification(DialectRegistry &registry);
llvm::SmallVector<CoverageColumn> getVerificationCoverage();
/// Attaches models of ops for tokens that arrive in chunks.
void registerGenerationVerification(DialectRegistry &registry);
/// Attaches the mapping from ops of a staged program to buffer ops.
void registerBufferVerification(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_VERIFY_VERIFY_H
