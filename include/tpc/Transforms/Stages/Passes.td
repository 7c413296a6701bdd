//===- Passes.td - Pipeline stages and their schedule ------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_STAGES_PASSES
#define TPC_TRANSFORMS_STAGES_PASSES

include "mlir/Pass/PassBase.td"

def SplitStages : Pass<"tpc-split-stages", "::mlir::ModuleOp"> {
  let summary = "Cut @main into one function for each pipeline stage";
  let description = [{
    Runs on the spmd program. @main can be cut at points with exactly one live value (the residual),
    apart from values that stages recompute. Stages recompute values that depend only on inputs,
    constants and small weights (masks, positions, cos and sin) if that costs less than 1% of the
    computation and memory of an average stage. If some stage would otherwise have no work, the
    limit is 10% and, if that is not enough, the time of sending the value. Values that depend only
    on weights are always recomputed.

    The pass minimizes the time of the slowest stage by the cost model, including embedding and
    head. Among solutions within 1% of the minimum it chooses the most balanced one. Each cut is
    charged for its message at both ends, but only for the time beyond that of the cheapest message,
    because every cut pays at least that.

    A stage may begin within a layer, at a point where the layer's function has exactly one live
    value; the function is then split in two. This applies only if the slowest stage becomes more
    than 5% faster and the maximum weight bytes of a rank do not grow by a larger factor.

    The pass emits a warning for a stage without a layer and for a stage that takes more than 1.5
    times the mean, with the reason. Reports read the warnings from `tpc.warnings` on the module.

    The result is an @main that calls @stage_0 ... in order. The arguments of a stage are the value
    from the previous stage and the inputs that it uses; the results are the value for the next
    stage and the stage's outputs. Each function gets estimates: `tpc.seconds` of its ops, the share
    `tpc.layer_seconds` in layers, the share `tpc.recomputed_seconds` for values that other stages
    compute too; `tpc.transfer_seconds` of the messages from and to its neighbors;
    `tpc.weight_bytes`.

    If ops have `tpc.pipeline_stage` (from the ONNX file's device configuration), the pass cuts
    between ops of different stages.

    Errors: fewer possible cuts than needed for `pp` stages; an op that uses a value of a later
    stage; requested stages that do not ascend or without a possible cut between them;
    `tpc.pipeline_stage` inside of a function.
  }];
  let options = [ListOption<"cuts", "cuts", "int64_t",
      "Indices of the cuts among the possible cuts (from 0, ascending), one less than stages">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def SchedulePipeline : Pass<"tpc-schedule-pipeline", "::mlir::ModuleOp"> {
  let summary = "Convert @main's stage calls to a tpc.pipeline";
  let description = [{
    Each call of a stage becomes a `tpc.stage`. For each micro-batch it receives from the previous
    stage, computes, sends to the next stage, and delivers outputs. A program with one stage has the
    same form. If the batch is split (`tpc.batch`), all stages skip micro-batches without samples,
    and a replica without samples idles. If replicas communicate (weights that an annotation splits
    over dp), all replicas run all micro-batches: the loop is over a dimension with one element for
    each micro-batch.

    With `vpp` chunks on each rank of pp, chunk k is a `tpc.micro_batches` of stage k mod pp, and
    the policy `interleaved` makes the schedule: groups of pp micro-batches pass through all chunks
    of a rank before the next group begins.
  }];
  let options = [Option<"policy", "policy", "std::string", "",
      "Name of the schedule's policy; by default interleaved for several chunks on a rank, else "
      "gpipe: the loop over micro-batches">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoistInvariants : Pass<"tpc-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "Hoist micro-batch-invariant computations";
  let description = [{
    Runs on stages with several micro-batches. Values that the stage's function computes only from
    inputs that are not split over `mb`, constants and sizes are equal in every micro-batch
    iteration: rotary tables of positions, masks, a lookup over the entire batch. The pass moves
    them into a private function that the stage calls once, before the micro-batches, and passes the
    results as arguments:

        tpc.stage 0 {                                    tpc.stage 0 {
          tpc.micro_batches of <batch{mb}> {               %m = func.call @stage_0_prologue(%mask)
            %y = func.call @stage_0(%ids, %mask)           tpc.micro_batches of <batch{mb}> {
            ...                                              %y = func.call @stage_0(%ids, %m)
          }                                                  ...
        }                                                  }
                                                         }

    Collectives over axes other than `pp` are hoisted too.

    Not hoisted:

    * values received from another stage;
    * calls of functions (layers), with all their ops;
    * values computed only from weights, because they would be a second copy of the weights;
    * values whose recomputation takes no longer than storing and loading them;
    * an op whose result is larger than its operands, such as `tpc.expand`, if it costs no more than
      loading the result; its operands are hoisted instead.

    Hoisted values are live during the entire step: `--report` prints their bytes, and the peak
    memory of `--explain` includes them. The stage's estimates (`tpc.seconds`, …) are not updated.

    Programs with one micro-batch and stages without such values are not changed.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

#endif // TPC_TRANSFORMS_STAGES_PASSES
