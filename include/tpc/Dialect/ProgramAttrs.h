//===- ProgramAttrs.h - Names of the tpc.* attributes -----------*- C++ -*-===//
//
// Discardable attributes that passes use to communicate. All names are defined here.
// lib/Dialect/DiscardableAttrs.cpp defines the allowed ops and values of each and verifies them.
// Any other attribute tpc.* is an error.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_PROGRAMATTRS_H
#define TPC_DIALECT_PROGRAMATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

// ---- the program ----

/// Module: the `#tpc.grid` that defines the axes.
inline constexpr llvm::StringLiteral kGridAttr = "tpc.grid";
/// Module: an array of dictionaries {expr = #tpc.expr, min, max, why}: bounds that the sizes of a
/// run must satisfy.
inline constexpr llvm::StringLiteral kConstraintsAttr = "tpc.constraints";
/// Module: absolute path of the imported file.
inline constexpr llvm::StringLiteral kSourceAttr = "tpc.source";
/// Arguments and results of @main: the ONNX name.
inline constexpr llvm::StringLiteral kNameAttr = "tpc.name";
/// Results of @main and outputs of a pipeline: array<i64: dim, times>. Each index of `dim` is
/// repeated `times` times; the first copy is delivered.
inline constexpr llvm::StringLiteral kCopiesAttr = "tpc.copies";
/// Arguments of @main: the #tpc.default that replaces an omitted input.
inline constexpr llvm::StringLiteral kDefaultAttr = "tpc.default";
/// Arguments of @main: the reason why the input is required although similar inputs are optional.
inline constexpr llvm::StringLiteral kRequiredAttr = "tpc.required";
/// Functions, a unit attribute: a repeated section of the model, called once per repetition with
/// the weights of that repetition.
inline constexpr llvm::StringLiteral kLayerAttr = "tpc.layer";
/// Functions, a unit attribute: a section of a layer, cut where a stage begins within the layer.
/// The section with the attention counts as the layer.
inline constexpr llvm::StringLiteral kLayerPartAttr = "tpc.layer_part";

// ---- user annotations ----

/// Weights, inputs and ops with one result: the requested split, one entry for each dimension (see
/// Sharding.h).
inline constexpr llvm::StringLiteral kShardingAttr = "tpc.sharding";
/// Source location of tpc.sharding if it was read from a file: "a.txt:3:10".
inline constexpr llvm::StringLiteral kShardingSourceAttr = "tpc.sharding_source";
/// Module, as imported: the file's device configurations, as an array of {name, devices, tensors =
/// [{tensor, node, devices = [devices with shard 0, …], dims = [{axis, sizes, shards}]}],
/// stages = [{node, stage}]}.
inline constexpr llvm::StringLiteral kDevicesAttr = "tpc.devices";
/// Ops: the requested pipeline stage. On a call of a layer that spans several stages: an array of
/// {node, stage} for the nodes in the layer's function.
inline constexpr llvm::StringLiteral kPipelineStageAttr = "tpc.pipeline_stage";
/// Module, during recognition: an array of {node, stage}. Nodes are identified by their names,
/// which are in the locations.
inline constexpr llvm::StringLiteral kRecordedStagesAttr = "tpc.recorded_stages";
/// Module: costs of the links between ranks.
inline constexpr llvm::StringLiteral kLinksAttr = "tpc.links";
/// Module: the name of the target for which kernels are built (TargetTraits.h). Absent: the default
/// target.
inline constexpr llvm::StringLiteral kTargetAttr = "tpc.target";

// ---- tactics, on the way to the sharded program ----

/// Ops: the axes that split the op, as one #tpc.dim for each factor of its sharding rule; arguments
/// of a layer: one for each dimension. Set by tpc-assign-shardings, removed by tpc-insert-reshards.
inline constexpr llvm::StringLiteral kSplitAttr = "tpc.split";
/// Ops: the distribution to which the result is resharded before its uses.
inline constexpr llvm::StringLiteral kResultSplitAttr = "tpc.result_split";
/// Module: the tactics that ran, as an array of {name, splits = [texts], predicts = [{axis, kind,
/// size, why}]}. An expected collective (`predicts`) has the size of the moved dimension, if any.
inline constexpr llvm::StringLiteral kTacticsAttr = "tpc.tactics";
/// Module: warnings about the plan, for the report.
inline constexpr llvm::StringLiteral kWarningsAttr = "tpc.warnings";
/// Module: the size that is split into micro-batches.
inline constexpr llvm::StringLiteral kBatchAttr = "tpc.batch";
/// On the sums of a decomposed norm over the residual's width.
inline constexpr llvm::StringLiteral kNormAttr = "tpc.norm";
/// On an add: its right side was the bias of the matmul on its left side.
inline constexpr llvm::StringLiteral kBiasAttr = "tpc.bias";
/// On ops of a model with replicated KV heads: text with the number of copies.
inline constexpr llvm::StringLiteral kRepeatedHeadsAttr = "tpc.repeated_heads";
/// Module, a unit attribute: norms over split widths are decomposed. The equivalence proof then
/// compares all norms by their definition.
inline constexpr llvm::StringLiteral kNormsDecomposedAttr = "tpc.norms_decomposed";

// ---- stages ----

/// Functions: the index of the stage.
inline constexpr llvm::StringLiteral kStageAttr = "tpc.stage";
/// Functions and stages: estimated seconds of one micro-batch, without messages to neighbors.
inline constexpr llvm::StringLiteral kSecondsAttr = "tpc.seconds";
/// Functions and stages: the share of kSecondsAttr in layers.
inline constexpr llvm::StringLiteral kLayerSecondsAttr = "tpc.layer_seconds";
/// Functions and stages: the share of kSecondsAttr for values that other stages compute too.
inline constexpr llvm::StringLiteral kRecomputedSecondsAttr = "tpc.recomputed_seconds";
/// Functions and stages: estimated seconds of messages to neighbors, for one micro-batch.
inline constexpr llvm::StringLiteral kTransferSecondsAttr = "tpc.transfer_seconds";
/// Functions and stages: bytes of its weights on the rank with the most.
inline constexpr llvm::StringLiteral kWeightBytesAttr = "tpc.weight_bytes";

// ---- results of verifiers, for the manifest ----

/// Module: the hash of the staged program's schedule.
inline constexpr llvm::StringLiteral kScheduleAttr = "tpc.schedule";
/// Module: the verifiers that were skipped.
inline constexpr llvm::StringLiteral kNotVerifiedAttr = "tpc.not_verified";
/// Module: the reason why a proved program could not also be run at small sizes.
inline constexpr llvm::StringLiteral kNoRandomizedCheckAttr = "tpc.no_randomized_check";

// ---- lowering ----

/// Functions that are kernels: the number of row dimensions.
inline constexpr llvm::StringLiteral kKernelAttr = "tpc.kernel";
/// Marks ops that are fused into the preceding matmul (bias, activation, residual); see
/// tpc-fuse-epilogues.
inline constexpr llvm::StringLiteral kFusedAttr = "tpc.fused";
/// On matmuls of one block with the same left side: matmuls with the same number form one GEMM; see
/// tpc-merge-matmuls.
inline constexpr llvm::StringLiteral kMergedAttr = "tpc.merged";
/// On a tpc.cast of a parameter that is applied while the parameter is loaded for matmuls.
inline constexpr llvm::StringLiteral kLoadedAttr = "tpc.loaded";
/// A unit attribute of a cast that lowering has inserted after a matmul: it rounds each term of a
/// sum, as the matmul itself did.
inline constexpr llvm::StringLiteral kRoundsPartsAttr = "tpc.rounds_parts";

// ---- tests ----

/// Module: the inputs that tpc-evaluate generated on its first run, and the outputs.
inline constexpr llvm::StringLiteral kInputsAttr = "tpc.inputs";
inline constexpr llvm::StringLiteral kExpectedAttr = "tpc.expected";

} // namespace mlir::tpc

#endif // TPC_DIALECT_PROGRAMATTRS_H
