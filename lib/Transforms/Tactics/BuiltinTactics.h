//===- BuiltinTactics.h - Built-in tactics and their rewrites ---*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_BUILTINTACTICS_H
#define TPC_LIB_TRANSFORMS_TACTICS_BUILTINTACTICS_H

#include "tpc/Analysis/Nominal.h"
#include "tpc/Transforms/Tactics/Tactic.h"

namespace mlir::tpc {

//===----------------------------------------------------------------------===//
// Seeds of the built-in tactics (Tactic.cpp lists their names, needs and facts)
//===----------------------------------------------------------------------===//

/// Applies `tpc.sharding` annotations of weights, values and inputs.
LogicalResult seedAnnotations(PartitionState &state);
/// Splits the batch over data-parallel replicas and micro-batches.
LogicalResult seedData(PartitionState &state);
/// Splits experts over ep.
LogicalResult seedExperts(PartitionState &state);
/// Splits weights over tp (tpy with two dimensions): heads and inner widths.
LogicalResult seedTensor(PartitionState &state);
/// Splits the vocabulary over tp: rows of the table, columns of the head.
LogicalResult seedVocabulary(PartitionState &state);
/// With two tp dimensions: splits the rows of matrices over tpx.
LogicalResult seedRows(PartitionState &state);
/// For each op where one axis splits two classes, selects the class that keeps the axis.
LogicalResult resolveConflicts(PartitionState &state);
/// Sequence parallelism: shards the tokens of ops that tp does not split.
LogicalResult seedSequence(PartitionState &state);

/// Marks of classes (PartitionState::mark): classes that the tensor tactics split, and the subset
/// that are vocabulary dimensions.
inline constexpr llvm::StringLiteral kColumns = "columns", kVocabulary = "vocabulary";

/// Returns the row classes of the matrix of `op`, if annotations split them over tpx or leave them
/// unspecified.
SmallVector<int> getRowClasses(const PartitionState &state, Operation *op);

/// Ops that need all samples (`batch` unsplit), together with their producers, if these are cheap.
/// Each rank runs them for all samples in every micro-batch, because inputs are replicated.
/// `blockers`: ops that need all samples, but have producers that are too expensive.
struct WholeBatch {
  llvm::SetVector<Operation *> ops;
  struct Blocker {
    Operation *op;     // needs all samples
    Operation *source; // expensive producer; null: an argument of a layer
    bool always;       // prevents replicas too, not only micro-batches
    StringRef why;
  };
  SmallVector<Blocker> blockers;
};
WholeBatch findWholeBatch(const PartitionState &state, int batch, bool micro);

/// Returns true if two of these reductions are in the same function. Partial sums that are added up
/// are one reduction. The backward function of a layer has reductions of its own.
bool hasSeveralSums(ArrayRef<Operation *> sums);

/// Returns the distance in the weight of elements i and i + steps of a view's dimension. If
/// elements are repeated, returns the distance to the next distinct element.
int64_t getStride(ArrayRef<StridedFactorAttr> factors, int64_t steps);

//===----------------------------------------------------------------------===//
// Rewrites of the program before or between tactics
//===----------------------------------------------------------------------===//

/// Clones layer functions such that all calls of a function have weights with equal annotations.
void specializeLayers(ModuleOp module);
/// Clones parameters, constants and iotas for each use, and adds a function argument for each use
/// of a parameter, so that uses can have different shardings.
void separateUses(ModuleOp module);
/// Converts the biases of matmuls to adds, so that the inner dimension of a matmul can be split.
/// The biases of matmuls that are not split in this way are restored later.
void separateBiases(ModuleOp module);

/// Reassociates sums so that partial sums are added first and one reduction suffices: x + attention
/// + mlp becomes (attention + mlp) + x. Runs between the tactics for columns and those for sites.
/// All classes and their splits remain. Returns true if the program changed; the problem must then
/// be refreshed.
bool regroupSums(PartitionState &state);

/// Returns the norms that tp may split: those over widths within a layer, such as all heads of
/// queries, and, with two tp dimensions, those over the residual's width.
PartitionProblem::DecomposableNorms findDecomposableNorms(const PartitionProblem &problem);
/// Returns the estimated bytes of the sums of a decomposed norm: a number per token for each. 0 if
/// `use` is not its width.
double estimateNormSumBytes(ClassUse use, const PartitionProblem &problem, const Symbols &symbols);
/// Decomposes the decomposable norms whose width is split over tp, or will be split by the tactic
/// for rows (`splitsRows`). Runs after the tactics for columns. All classes and their splits
/// remain. Returns true if the program changed; the problem must then be refreshed.
bool decomposeNorms(PartitionState &state, bool splitsRows);

//===----------------------------------------------------------------------===//
// After the tactics
//===----------------------------------------------------------------------===//

/// Derives the collectives of all expected communication. Precondition: the module has the
/// attributes that tpc-insert-reshards reads.
LogicalResult expectCollectives(PartitionState &state);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_BUILTINTACTICS_H
