//===- ProgramAttrs.h - Names of discardable tpc.* attributes ---*- C++ -*-===//
//
// Discardable attributes by which passes communicate. lib/Dialect/DiscardableAttrs.cpp defines and
// verifies the allowed ops and values of each attribute. Any other tpc.* attribute is an error.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_PROGRAMATTRS_H
#define TPC_DIALECT_PROGRAMATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

// ---- the program ----

/// Module: the `#tpc.mesh` that defines the axes.
inline constexpr llvm::StringLiteral kMeshAttr = "tpc.mesh";
/// Module: an array of dictionaries {expr = #tpc.expr, min, max, why}: bounds on sizes that are
/// checked at launch.
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
/// Arguments of @main: the reason why an input has no default, although inputs of its kind usually
/// have one.
inline constexpr llvm::StringLiteral kRequiredAttr = "tpc.required";
/// Functions, a unit attribute: a layer, that is, a repeated section of the model, called with the
/// weights of each repetition.
inline constexpr llvm::StringLiteral kLayerAttr = "tpc.layer";
/// Functions, a unit attribute: a section of a layer that is divided because a stage begins within
/// it. The section with the attention op counts as a layer in reports.
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
/// Module, during recognition: the pipeline stages of nodes, as an array of {node, stage}. Nodes
/// are identified by their names, which are in the locations.
inline constexpr llvm::StringLiteral kRecordedStagesAttr = "tpc.recorded_stages";
/// Module: latency and bandwidth of the links between ranks (LinksAttr.h).
inline constexpr llvm::StringLiteral kLinksAttr = "tpc.links";
/// Module: the name of the compilation target (TargetTraits.h). Absent: the default target.
inline constexpr llvm::StringLiteral kTargetAttr = "tpc.target";

// ---- tactics and sharding ----

/// Ops: the axes that split the op, as one #tpc.dim for each factor of its sharding rule; arguments
/// of a layer: one for each dimension. Set by tpc-assign-shardings, removed by tpc-insert-reshards.
inline constexpr llvm::StringLiteral kSplitAttr = "tpc.split";
/// Ops: the distribution to which the result is resharded before its uses.
inline constexpr llvm::StringLiteral kResultSplitAttr = "tpc.result_split";
/// Module: the applied tactics, as an array of {name, splits = [texts], predicts = [{axis, kind,
/// size, why}]}. `predicts` lists the expected collectives; `size` is that of the gathered,
/// scattered or sliced dimension, if any.
inline constexpr llvm::StringLiteral kTacticsAttr = "tpc.tactics";
/// Module: warnings about the plan, for the report.
inline constexpr llvm::StringLiteral kWarningsAttr = "tpc.warnings";
/// Module: the size that is split into micro-batches.
inline constexpr llvm::StringLiteral kBatchAttr = "tpc.batch";
/// Sums that belong to a decomposed norm over the residual's width.
inline constexpr llvm::StringLiteral kNormAttr = "tpc.norm";
/// On an add: the RHS is the hoisted bias of the matmul that computes the LHS.
inline constexpr llvm::StringLiteral kBiasAttr = "tpc.bias";
/// On attention ops with replicated KV heads: text that describes the replication and its cost.
inline constexpr llvm::StringLiteral kRepeatedHeadsAttr = "tpc.repeated_heads";
/// Module, a unit attribute: norms over split dimensions are decomposed. The equivalence proof then
/// expands all norms to their definition.
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
/// Functions and stages: maximum bytes of weights on a rank.
inline constexpr llvm::StringLiteral kWeightBytesAttr = "tpc.weight_bytes";

// ---- results of verifiers, for the manifest ----

/// Module: the hash of the staged program's schedule.
inline constexpr llvm::StringLiteral kScheduleAttr = "tpc.schedule";
/// Module: the verifiers that were skipped.
inline constexpr llvm::StringLiteral kNotVerifiedAttr = "tpc.not_verified";
/// Module: why the randomized check was skipped, or the first fact that it did not exercise.
inline constexpr llvm::StringLiteral kNoRandomizedCheckAttr = "tpc.no_randomized_check";

// ---- lowering ----

/// Functions that are kernels: the number of row dimensions.
inline constexpr llvm::StringLiteral kKernelAttr = "tpc.kernel";
/// Marks ops that are fused into the preceding matmul (bias, activation, residual); see
/// tpc-fuse-epilogues.
inline constexpr llvm::StringLiteral kFusedAttr = "tpc.fused";
/// On matmuls of one block with the same LHS: matmuls with the same number are merged into one
/// GEMM; see tpc-merge-matmuls.
inline constexpr llvm::StringLiteral kMergedAttr = "tpc.merged";
/// On a tpc.cast of a matmul's parameter: the cast is applied at load time.
inline constexpr llvm::StringLiteral kLoadedAttr = "tpc.loaded";
/// On ops between quantized parameters and a matmul: the matmul's call computes them; see
/// tpc-fuse-dequantize.
inline constexpr llvm::StringLiteral kQuantizedAttr = "tpc.quantized";
/// A unit attribute of a cast that lowering inserts after a matmul with unreduced result: the cast
/// rounds the operand of a reduction, as the original matmul did.
inline constexpr llvm::StringLiteral kRoundsPartsAttr = "tpc.rounds_parts";

// ---- tests ----

/// Module: the generated inputs of the first tpc-evaluate, and its outputs.
inline constexpr llvm::StringLiteral kInputsAttr = "tpc.inputs";
inline constexpr llvm::StringLiteral kExpectedAttr = "tpc.expected";

} // namespace mlir::tpc

#endif // TPC_DIALECT_PROGRAMATTRS_H
