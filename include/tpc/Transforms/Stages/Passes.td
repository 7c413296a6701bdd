//===- Passes.td - Pipeline stages and their schedule -----------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_STAGES_PASSES
#define TPC_TRANSFORMS_STAGES_PASSES

include "mlir/Pass/PassBase.td"

def SplitStages : Pass<"tpc-split-stages", "::mlir::ModuleOp"> {
  let summary = "Cut @main into one function for each pipeline stage";
  let description = [{
    Works on the spmd program. @main may be cut wherever exactly one value that is worth
    sending is live: the residual. What depends on inputs, constants and small weights
    alone (masks, positions, cos and sin) does not count where recomputing it costs little: each stage that
    needs it computes it again. Little is 1%, at most 10%, of what an average stage computes and holds or, if that leaves no
    better cut, as long as it would take to send it. What depends on weights alone never counts.

    Of all ways to cut into as many stages as the grid's `pp`, the one is taken whose slowest stage is fastest, by
    the cost model, the embedding and the head counted; among equals (within 1%) the most even one. A message
    counts at both its ends, with what it takes more than the least that a cut can send.

    A stage may begin within a layer, where its function has one live value alone: it becomes two functions. That is done if the slowest stage is
    faster by more than 5%, and the weights of the fullest grow by no larger a factor.

    A stage without a layer, and one that takes more than 1.5 times the mean, are warned of with the
    reason; `tpc.warnings` on the module keeps the warning for reports.

    @main then calls @stage_0 ... in order, each of which takes the value of
    the stage before it and those inputs that it needs, and returns the value for the next stage
    and the outputs that arise in it. Estimates stand on each function: `tpc.seconds` of its ops, of which
    `tpc.layer_seconds` in layers and `tpc.recomputed_seconds` for what other stages compute too;
    `tpc.transfer_seconds` of the messages from and to its neighbours; `tpc.weight_bytes`.

    Where ops say in which stage they are to be (`tpc.pipeline_stage`, from the file's own device
    configuration), the same is done with the places between them.

    Errors: more stages than there are places to cut; an op that needs what one of a later stage computes; ops whose stages
    do not ascend, or between which there is no place; one that says its stage inside of a function.
  }];
  let options = [ListOption<"cuts", "cuts", "int64_t",
      "Cut here instead: which of the possible places (from 0, ascending), one less than stages">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def SchedulePipeline : Pass<"tpc-schedule-pipeline", "::mlir::ModuleOp"> {
  let summary = "Turn @main's calls of stages into tpc.pipeline";
  let description = [{
    Each call of a stage becomes a `tpc.stage`: for each micro-batch, receive from the stage
    before, compute, send to the next one, deliver outputs. One stage has the same
    form, so that lowering knows this form only. If the batch is split (`tpc.batch`), micro-batches without
    samples are skipped, by all stages alike; a replica without samples idles, unless there is
    communication between replicas (weights that an annotation splits over dp). Then all take part in all
    micro-batches: the loop is over a dimension that has one element for each of them.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoistInvariants : Pass<"tpc-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "Compute what no micro-batch changes once, before the rounds";
  let description = [{
    Works on stages with several micro-batches. What the stage's function computes from whole inputs, constants and
    sizes alone is the same in every round: rotary tables of positions, masks, a lookup that needs the whole batch.
    It moves into a private function that the stage calls once, before its rounds, and what the rounds need of it becomes
    arguments of theirs:

        tpc.stage 0 {                                    tpc.stage 0 {
          tpc.micro_batches of <batch{mb}> {               %m = func.call @stage_0_prologue(%mask)
            %y = func.call @stage_0(%ids, %mask)           tpc.micro_batches of <batch{mb}> {
            ...                                              %y = func.call @stage_0(%ids, %m)
          }                                                  ...
        }                                                  }
                                                         }

    Collectives go along, over any axis but `pp`: the same ranks do them once.

    Stays in the rounds: what arrives from another stage; calls of functions (layers), with all that is in them; what is
    computed from weights alone, as holding it would be a second copy of weights; what is computed again in no more time
    than writing and reading it takes (the rule of `tpc-split-stages` for what each stage computes again, with this limit); and
    an op that makes more of less, such as an expansion, where that costs no more than to read the result: rounds hold what it is
    made of. What is held takes memory of the stage for the whole step: `--report` has the bytes, and they count
    in the peak of `--explain`. The stage's estimates stay those with which it was cut.

    Programs of one micro-batch, and stages with nothing to hoist, stay as they are.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

#endif // TPC_TRANSFORMS_STAGES_PASSES
