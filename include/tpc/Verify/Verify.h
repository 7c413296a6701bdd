//===- Verify.h - Verification of partitioned programs ----------*- C++ -*-===//

#ifndef TPC_VERIFY_VERIFY_H
#define TPC_VERIFY_VERIFY_H

#include "tpc/Dialect/CoverageColumn.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::tpc {

/// Reference programs for verification, shared by the passes that record them and the verifiers.
struct ReferenceModel {
  OwningOpRef<ModuleOp> module; // the model, before partitioning
  OwningOpRef<ModuleOp> staged; // the staged program, before lowering
};

/// Create passes that store a copy of the module in `reference`, as the model or as the staged
/// program. The passes have no command-line flags, because the copy is used only within one
/// compilation.
std::unique_ptr<Pass> createRecordReference(std::shared_ptr<ReferenceModel> reference);
std::unique_ptr<Pass> createRecordStaged(std::shared_ptr<ReferenceModel> reference);
struct EquivalenceMethods {
  bool symbolic = true;  // proof for all sizes
  bool interpret = true; // randomized check at small sizes over a prime field
  bool report = false;   // print the coverage of the randomized check
};

/// Creates `tpc-verify-equivalence` with the recorded model.
std::unique_ptr<Pass> createVerifyEquivalence(std::shared_ptr<ReferenceModel> reference,
                                              EquivalenceMethods methods = {});

/// Proves that `program` computes the same as `model`, or emits errors. If the programs cannot be
/// run at small sizes, `skipped` receives the reason; else `unexercised` receives a description of
/// the code that the randomized check does not cover.
LogicalResult verifyEquivalence(ModuleOp model, ModuleOp program, EquivalenceMethods methods = {},
                                std::string *skipped = nullptr, std::string *unexercised = nullptr);

/// Implements `tpc-verify-generation`: proves that a step with caches computes the same as
/// `reference`, the model or, for a step on preallocated caches, the original step.
LogicalResult verifyGeneration(ModuleOp reference, ModuleOp step, EquivalenceMethods methods = {});

/// Verifies a program after `tpc-extend-logits`: the logits of each sequence's last token are the
/// logits of the file.
LogicalResult verifyExtendedLogits(ModuleOp file, ModuleOp extended);

/// Proves only that each value on a rank is what its type specifies: a copy of a global value, its
/// shard, or an operand of its reduction. Needs no model.
LogicalResult verifyDistribution(ModuleOp program);

/// Implements `tpc-verify-facts`. Either reference may be null.
LogicalResult verifyFacts(ModuleOp program, ModuleOp model, ModuleOp staged);
std::unique_ptr<Pass> createVerifyFacts(std::shared_ptr<ReferenceModel> reference);
/// Checks that the facts of `program` equal the model's: names, defaults and types of inputs and
/// outputs, constraints, step, source, weights and caches.
LogicalResult compareFacts(ModuleOp program, ModuleOp model);
/// Checks that the facts and all other attributes of a program at the kernels or buffers level
/// equal the staged program's.
LogicalResult compareLoweredFacts(ModuleOp lowered, ModuleOp staged);
/// Checks that the facts of a step are derived from those of `reference`: the model or, for a step
/// on preallocated caches, the original step.
LogicalResult verifyStepFacts(ModuleOp reference, ModuleOp step);
/// Prints docs/reference/facts.md: each fact of an executable, and the verifier that covers it.
void printFactTable(llvm::raw_ostream &os);

/// Creates `tpc-verify-lowered` with the recorded model and staged program.
std::unique_ptr<Pass> createVerifyLowered(std::shared_ptr<ReferenceModel> reference);
/// Attaches the interpreter models of buffer ops (tpc-verify-lowered).
void registerLoweredInterpreter(DialectRegistry &registry);

/// Attaches the models of verifiers and the reference interpreter to ops.
void registerVerification(DialectRegistry &registry);
llvm::SmallVector<CoverageColumn> getVerificationCoverage();
/// Attaches the op models of tpc-verify-generation.
void registerGenerationVerification(DialectRegistry &registry);
/// Attaches the op models of tpc-verify-buffers.
void registerBufferVerification(DialectRegistry &registry);

} // namespace mlir::tpc

#endif // TPC_VERIFY_VERIFY_H
