//===- ProgramAttrs.h - The attributes tpc.* --------------------*- C++ -*-===//
//
// What passes and stages tell each other beside the ops. All such attributes are named here;
// lib/Dialect/DiscardableAttrs.cpp says for each where it may stand and what it may be, and
// verifies it. Any other attribute tpc.* is an error.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_PROGRAMATTRS_H
#define TPC_DIALECT_PROGRAMATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

// ---- the program ----

/// Module: the `#tpc.grid` that axes refer to.
inline constexpr llvm::StringLiteral kGridAttr = "tpc.grid";
/// Module: an array of dictionaries {expr = #tpc.expr, min, max, why}: sizes that a run must
/// satisfy.
inline constexpr llvm::StringLiteral kConstraintsAttr = "tpc.constraints";
/// Module: absolute path of the file that was imported.
inline constexpr llvm::StringLiteral kSourceAttr = "tpc.source";
/// Arguments and results of @main: the ONNX name.
inline constexpr llvm::StringLiteral kNameAttr = "tpc.name";
/// Results of @main and outputs of a pipeline: array<i64: dim, times>, each index of `dim` is there
/// `times` times, and the first is delivered.
inline constexpr llvm::StringLiteral kCopiesAttr = "tpc.copies";
/// Arguments of @main: the #tpc.default that an input takes when it is left out.
inline constexpr llvm::StringLiteral kDefaultAttr = "tpc.default";
/// Arguments of @main: why it must be given, although inputs like it may be left out.
inline constexpr llvm::StringLiteral kRequiredAttr = "tpc.required";
/// Functions, a unit attribute: a repeated part of the model, called once per repetition with that
/// repetition's weights.
inline constexpr llvm::StringLiteral kLayerAttr = "tpc.layer";
/// Functions, a unit attribute: a part of a layer, cut where a stage begins within one. The part
/// with the attention counts as the layer.
inline constexpr llvm::StringLiteral kLayerPartAttr = "tpc.layer_part";

// ---- what users want ----

/// Weights, inputs and ops with one result: how it is to be split, one entry for each dimension
/// (see Sharding.h).
inline constexpr llvm::StringLiteral kShardingAttr = "tpc.sharding";
/// Beside tpc.sharding, where it comes from a file: "a.txt:3:10".
inline constexpr llvm::StringLiteral kShardingSourceAttr = "tpc.sharding_source";
/// Module, as imported: the file's device configurations, as an array of {name, devices, tensors =
/// [{tensor, node, devices = [devices that hold part 0, …], dims = [{axis, sizes, shards}]}],
/// stages = [{node, stage}]}.
inline constexpr llvm::StringLiteral kDevicesAttr = "tpc.devices";
/// Ops: the pipeline stage that it is to be in. On a call of a layer that is to lie in several
/// stages, an array of {node, stage}: those of the nodes that the layer's function is made of.
inline constexpr llvm::StringLiteral kPipelineStageAttr = "tpc.pipeline_stage";
/// Module, while the model is recognized: an array of {node, stage}. Nodes are known by their
/// names, which locations have.
inline constexpr llvm::StringLiteral kHeldStagesAttr = "tpc.held_stages";
/// Module: the links between ranks.
inline constexpr llvm::StringLiteral kLinksAttr = "tpc.links";
/// Module: the name of the target that kernels are built for (TargetTraits.h); the default one
/// without it.
inline constexpr llvm::StringLiteral kTargetAttr = "tpc.target";

// ---- tactics, on the way to the sharded program ----

/// Ops: the axes that split it, as one #tpc.dim for each factor of its sharding rule; arguments of
/// a layer: one for each dimension. Set by tpc-assign-shardings, removed by tpc-insert-reshards.
inline constexpr llvm::StringLiteral kSplitAttr = "tpc.split";
/// Ops: what the result is resharded to before it is used.
inline constexpr llvm::StringLiteral kHoldAttr = "tpc.hold";
/// Module: the tactics that ran, as an array of {name, splits = [texts], predicts = [{axis, kind,
/// size, why}]}. A prediction has the size of the dimension that is moved, if there is one.
inline constexpr llvm::StringLiteral kTacticsAttr = "tpc.tactics";
/// Module: warnings of its plan, for the report.
inline constexpr llvm::StringLiteral kWarningsAttr = "tpc.warnings";
/// Module: the size over which micro-batches are loops.
inline constexpr llvm::StringLiteral kBatchAttr = "tpc.batch";
/// On the sums of a norm over the residual's width that was written out.
inline constexpr llvm::StringLiteral kNormAttr = "tpc.norm";
/// On an add: its right side was the bias of the product on its left side.
inline constexpr llvm::StringLiteral kBiasAttr = "tpc.bias";
/// On ops of a model in which kv heads are there several times: text that says how often.
inline constexpr llvm::StringLiteral kRepeatedHeadsAttr = "tpc.repeated_heads";
/// Module, a unit attribute: norms over widths that are split are there as what they compute. The
/// equivalence proof then compares all norms by their definition.
inline constexpr llvm::StringLiteral kNormsWrittenOutAttr = "tpc.norms_written_out";

// ---- stages ----

/// Functions: the index of the stage.
inline constexpr llvm::StringLiteral kStageAttr = "tpc.stage";
/// Functions and stages: estimated seconds of one micro-batch, without messages to its neighbours.
inline constexpr llvm::StringLiteral kSecondsAttr = "tpc.seconds";
/// Functions and stages: of these, in layers.
inline constexpr llvm::StringLiteral kLayerSecondsAttr = "tpc.layer_seconds";
/// Functions and stages: of these, for what other stages compute too.
inline constexpr llvm::StringLiteral kRecomputedSecondsAttr = "tpc.recomputed_seconds";
/// Functions and stages: estimated seconds of the messages to its neighbours, of one micro-batch.
inline constexpr llvm::StringLiteral kTransferSecondsAttr = "tpc.transfer_seconds";
/// Functions and stages: bytes of its weights, on the fullest rank.
inline constexpr llvm::StringLiteral kWeightBytesAttr = "tpc.weight_bytes";

// ---- what verifiers say, for the manifest ----

/// Module: the hash of the staged program's schedule.
inline constexpr llvm::StringLiteral kScheduleAttr = "tpc.schedule";
/// Module: which verifiers have been skipped.
inline constexpr llvm::StringLiteral kNotVerifiedAttr = "tpc.not_verified";
/// Module: why a program that is proved could not be run at small sizes as well.
inline constexpr llvm::StringLiteral kNoRandomizedCheckAttr = "tpc.no_randomized_check";

// ---- lowering ----

/// Functions that are kernels: the number of row dimensions.
inline constexpr llvm::StringLiteral kKernelAttr = "tpc.kernel";
/// Marks ops that the matrix product before them computes as well (bias, activation, residual); see
/// tpc-fuse-epilogues.
inline constexpr llvm::StringLiteral kFusedAttr = "tpc.fused";
/// On matrix products of one block and one left side: those of one number are done in one go; see
/// tpc-merge-products.
inline constexpr llvm::StringLiteral kMergedAttr = "tpc.merged";
/// A tpc.cast that is done as its operand, a parameter, is loaded for products.
inline constexpr llvm::StringLiteral kLoadedAttr = "tpc.loaded";
/// A unit attribute of a cast that lowering has put behind a product: it rounds each part of a sum,
/// as the product itself did.
inline constexpr llvm::StringLiteral kRoundsPartsAttr = "tpc.rounds_parts";

// ---- tests ----

/// Module: the inputs that tpc-evaluate made up the first time, and what came out.
inline constexpr llvm::StringLiteral kInputsAttr = "tpc.inputs";
inline constexpr llvm::StringLiteral kExpectedAttr = "tpc.expected";

} // namespace mlir::tpc

#endif // TPC_DIALECT_PROGRAMATTRS_H
