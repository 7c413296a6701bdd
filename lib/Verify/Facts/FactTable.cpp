//===- FactTable.cpp - Facts of an executable and their checks ------------===//

#include "FactTable.h"

#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/SourceToken.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/WeightParts.h"
#include "tpc/Verify/Verify.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::facts;

#define FACTS "`tpc-verify-facts`"
#define EQUIVALENCE "`tpc-verify-equivalence`"
#define COMMS "`tpc-verify-comms`"
#define BUFFERS "`tpc-verify-buffers`"
#define LOWERED "`tpc-verify-lowered`"
#define GENERATION "`tpc-verify-generation`"
#define INFORMATION "no effect on a run: "

static constexpr ManifestFact manifestFacts[] = {
    {"format", "the compiler", "constant; the runtime rejects any other"},
    {"name", "`--name`, `-o`", INFORMATION "a label"},
    {"compiler", "the compiler", "constant; processes compare it at the start of a run"},
    {"source", "`tpc.source`", FACTS},
    {"grid.sizes.*", "`tpc.mesh`", EQUIVALENCE ", " COMMS "; " FACTS " on lowered text"},
    {"grid.order[]", "`tpc.mesh`", EQUIVALENCE ", " COMMS "; " FACTS " on lowered text"},
    {"grid.micro_batches", "`tpc.mesh`", EQUIVALENCE ", " COMMS "; " FACTS " on lowered text"},
    {"grid.sequence_parallel", "the reduce-scatters of the program", INFORMATION "a label"},
    {"groups[][]", "collectives of the program", COMMS ", " BUFFERS},
    {"schedule", "`tpc.schedule`", COMMS "; " FACTS " on lowered text"},
    {"not_verified", "`tpc.not_verified`", "a report of `tpcc`; " FACTS " on lowered text"},
    {"no_randomized_check", "`tpc.no_randomized_check`",
     "a report of " EQUIVALENCE "; " FACTS " on lowered text"},
    {"symbols[]", "types of inputs; `tpc.step`", FACTS},

    {"inputs[].name", "`tpc.name`", FACTS},
    {"inputs[].dtype", "type of the input", FACTS ", " EQUIVALENCE},
    {"inputs[].shape[]", "type of the input", FACTS ", " EQUIVALENCE},
    {"inputs[].default", "`tpc.default`", FACTS},
    {"inputs[].mask", "`tpc.default`", FACTS},
    {"inputs[].past", "`tpc.default`", FACTS},
    {"inputs[].required", "`tpc.required`", FACTS},
    {"inputs[].range[]", "lookups of the program", EQUIVALENCE "; " LOWERED " on lowered text"},
    {"inputs[].range_of", "lookups of the program", EQUIVALENCE "; " LOWERED " on lowered text"},
    {"inputs[].range_after[]", "casts of the program", EQUIVALENCE "; " LOWERED " on lowered text"},
    {"inputs[].ignored", "the loss of the program", EQUIVALENCE "; " LOWERED " on lowered text"},
    {"outputs[].name", "`tpc.name`", FACTS},
    {"outputs[].dtype", "type of the output", FACTS ", " EQUIVALENCE},
    {"outputs[].shape[]", "type of the output", FACTS ", " EQUIVALENCE},
    {"constraints[].expr", "`tpc.constraints`", FACTS},
    {"constraints[].min", "`tpc.constraints`", FACTS},
    {"constraints[].max", "`tpc.constraints`", FACTS},
    {"constraints[].why", "`tpc.constraints`", FACTS},

    {"caches[].name", "`tpc.cache`", FACTS},
    {"caches[].stage", "the stage of the `tpc.output`", EQUIVALENCE "; " FACTS " on lowered text"},
    {"caches[].dtype", "type of the `tpc.cache`", FACTS},
    {"caches[].shape[]", "type of the `tpc.output`", EQUIVALENCE "; " FACTS " on lowered text"},
    {"caches[].axes[][]", "type of the `tpc.output`",
     EQUIVALENCE "; " BUFFERS ", " FACTS " on lowered text"},
    {"generation.tokens", "types of inputs", FACTS},
    {"generation.batch", "type of the input of lengths", FACTS},
    {"generation.sequence", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.lengths", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.counts", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.capacity", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.logits", "name of the first output", FACTS ", " GENERATION},
    {"generation.last_only", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.in_flight", "stages of `tpc.mesh`", COMMS},
    {"generation.vocabulary", "type of the first output", FACTS},
    {"generation.window", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.window_capacity", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.window_lengths", "`tpc.step`", FACTS ", " GENERATION},
    {"generation.source", "`tpc.source_caches`", FACTS ", " GENERATION},
    {"generation.source_capacity", "`tpc.source_caches`", FACTS ", " GENERATION},
    {"generation.source_lengths", "`tpc.source_caches`", FACTS ", " GENERATION},
    {"generation.source_each", "`tpc.source_caches`", FACTS ", " GENERATION},
    {"generation.source_token", "`tpc.source_token`", FACTS},
    {"generation.source_input", "name of the input with source tokens", FACTS},

    {"training.optimizer", "`tpc.optimizer`", FACTS},
    {"training.beta1", "`tpc.optimizer`", FACTS},
    {"training.beta2", "`tpc.optimizer`", FACTS},

    {"files[].path", "file of the `tpc.weight`, `tpc.source`", FACTS},
    {"files[].bytes", "the file", "processes compare it when they have opened the file"},
    {"files[].digest", "the file", "processes compare it when they have opened the file"},
    {"files[].tensors[].name", "`tpc.weight`", FACTS},
    {"files[].tensors[].offset", "`tpc.weight`", FACTS},
    {"files[].tensors[].bytes", "`tpc.weight`", FACTS},
    {"files[].tensors[].digest", "the file", "`--verify-weights` compares it"},
    {"parameters[].name", "the `tpc_buffer.entry`", BUFFERS ", " FACTS},
    {"parameters[].stage", "the `tpc_buffer.entry`", BUFFERS ", " FACTS},
    {"parameters[].dtype", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].source_dtype", "type of the `tpc.weight`", FACTS ", " EQUIVALENCE},
    {"parameters[].file", "file of the `tpc.weight`", FACTS},
    {"parameters[].offset", "offset of the `tpc.weight`", FACTS},
    {"parameters[].parts[]", "`tpc.parts`", FACTS},
    {"parameters[].bytes", "type of the `tpc.weight`", FACTS},
    {"parameters[].view_offset", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].dims[][].size", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].dims[][].stride", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].dims[][].axes[]", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].dims[][].of[].size", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].dims[][].of[].stride", "the `tpc_buffer.entry`", BUFFERS},
    {"parameters[].source_shape[]", "type of the `tpc.weight`", FACTS},
    {"parameters[].use", "the `tpc_buffer.entry` and its readers", BUFFERS},
    {"parameters[].init", "norms of the program", EQUIVALENCE "; " LOWERED " on lowered text"},
    {"parameters[].updated", "`tpc.update`", BUFFERS},
    {"parameters[].beside", "the `tpc_buffer.product`", BUFFERS},
};

static constexpr AttributeFact attributeFacts[] = {
    {kMeshAttr, Reference::Choice, EQUIVALENCE ", " COMMS},
    {kConstraintsAttr, Reference::Model, FACTS},
    {kSourceAttr, Reference::Model, FACTS},
    {kNameAttr, Reference::None, FACTS},
    {kCopiesAttr, Reference::None, EQUIVALENCE ", " BUFFERS "; " FACTS " on lowered text"},
    {kDefaultAttr, Reference::None, FACTS},
    {kPartsAttr, Reference::None, FACTS},
    {kRequiredAttr, Reference::None, FACTS},
    {kLayerAttr, Reference::None, "no effect on what is computed; " FACTS " on lowered text"},
    {kLayerPartAttr, Reference::None, "no effect on what is computed; " FACTS " on lowered text"},

    {kCacheAttr, Reference::None, FACTS},
    {kStepAttr, Reference::Model, FACTS ", " GENERATION},
    {kSourceCachesAttr, Reference::Model, FACTS ", " GENERATION},
    {kSourceTokenAttr, Reference::Model, FACTS},
    {kUpdateAttr, Reference::None, FACTS ", " BUFFERS},
    {kOptimizerAttr, Reference::Model, FACTS},

    {kShardingAttr, Reference::None,
     "a user's request; " EQUIVALENCE " proves the program for any choice"},
    {kShardingSourceAttr, Reference::None, "named in messages only"},
    {kDevicesAttr, Reference::Choice,
     "a user's request; " EQUIVALENCE " proves the program for any choice"},
    {kPipelineStageAttr, Reference::None,
     "a user's request; " EQUIVALENCE " proves the program for any choice"},
    {kRecordedStagesAttr, Reference::None, "removed before the model level ends"},
    {kLinksAttr, Reference::Choice, "an estimate: no effect on what is computed"},
    {kTargetAttr, Reference::Choice, LOWERED " for any target"},

    {kSplitAttr, Reference::None, "removed by `tpc-insert-reshards`"},
    {kResultSplitAttr, Reference::None, "removed by `tpc-insert-reshards`"},
    {kTacticsAttr, Reference::Choice, "a report: no effect on what is computed"},
    {kWarningsAttr, Reference::Choice, "a report: no effect on what is computed"},
    {kBatchAttr, Reference::Choice, EQUIVALENCE ", " COMMS},
    {kNormAttr, Reference::None, EQUIVALENCE ", which compares the computation"},
    {kBiasAttr, Reference::None, EQUIVALENCE ", which compares the computation"},
    {kRepeatedHeadsAttr, Reference::None, "a report: no effect on what is computed"},
    {kNormsDecomposedAttr, Reference::Choice, EQUIVALENCE ", which then decomposes all norms"},

    {kStageAttr, Reference::None, "a report; " FACTS " on lowered text"},
    {kSecondsAttr, Reference::None, "a report; " FACTS " on lowered text"},
    {kLayerSecondsAttr, Reference::None, "a report; " FACTS " on lowered text"},
    {kRecomputedSecondsAttr, Reference::None, "a report; " FACTS " on lowered text"},
    {kTransferSecondsAttr, Reference::None, "a report; " FACTS " on lowered text"},
    {kWeightBytesAttr, Reference::None, "a report; " FACTS " on lowered text"},

    {kScheduleAttr, Reference::Choice, COMMS},
    {kNotVerifiedAttr, Reference::Choice, "a report of `tpcc`, which sets it again"},
    {kNoRandomizedCheckAttr, Reference::Choice, "a report of " EQUIVALENCE ", which sets it again"},

    {kKernelAttr, Reference::None, BUFFERS ", " LOWERED},
    {kFusedAttr, Reference::None, BUFFERS ", " LOWERED},
    {kMergedAttr, Reference::None, BUFFERS ", " LOWERED},
    {kRowStrideAttr, Reference::None, BUFFERS ", " LOWERED},
    {kAliasedAttr, Reference::None, BUFFERS ", " LOWERED},
    {kLoadedAttr, Reference::None, BUFFERS ", " LOWERED},
    {kQuantizedAttr, Reference::None, BUFFERS ", " LOWERED},
    {kRoundsPartsAttr, Reference::None, BUFFERS ", " LOWERED},

    {kInputsAttr, Reference::Choice, "tests only: `tpc-evaluate`"},
    {kExpectedAttr, Reference::Choice, "tests only: `tpc-evaluate`"},
};

ArrayRef<ManifestFact> facts::getManifestFacts() { return manifestFacts; }
ArrayRef<AttributeFact> facts::getAttributeFacts() { return attributeFacts; }

void mlir::tpc::printFactTable(llvm::raw_ostream &os) {
  os << "# Facts and the verifiers that cover them\n\n"
        "An executable depends on facts outside of its code: names of inputs, constraints, "
        "windows, locations\nof weights. Each of these facts has a row with the check that covers "
        "it. \"On lowered text\" means\nthat text of `--emit=kernels` and `--emit=buffers` is "
        "compared with "
        "the staged program.\n[Verification](../design/verification.md#facts) describes the "
        "check.\n\n"
        "## Manifest\n\n"
        "`[]` is each element of a list, `*` each key of an object.\n\n"
        "| key | derived from | covered by |\n|---|---|---|\n";
  for (const ManifestFact &fact : manifestFacts)
    os << "| `" << fact.key << "` | " << fact.source << " | " << fact.covered << " |\n";
  os << "\n## Attributes\n\n"
        "Up to the staged program, `tpc-verify-facts` compares a module attribute with the program "
        "in the second\ncolumn. On lowered text, all attributes must equal those of the staged "
        "program.\n\n"
        "| attribute | compared with | covered by |\n|---|---|---|\n";
  for (const AttributeFact &fact : attributeFacts)
    os << "| `" << fact.name << "` | " << (fact.reference == Reference::Model ? "the model" : "")
       << " | " << fact.covered << " |\n";
}
