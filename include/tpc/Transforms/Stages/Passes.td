//===- Passes.td - Pipeline stages and their schedule ------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_STAGES_PASSES
#define TPC_TRANSFORMS_STAGES_PASSES

include "mlir/Pass/PassBase.td"

def SplitStages : Pass<"tpc-split-stages", "::mlir::ModuleOp"> {
  let summary = "Cut @main into one function for each pipeline stage";
  let description = [{
    Runs on the spmd program. @main may be cut wherever exactly one value that is worth sending is
    live: the residual. Values that depend only on inputs, constants and small weights (masks,
    positions, cos and sin) do not count if recomputing them is cheap: each stage that needs them
    recomputes them. Cheap is 1%, at most 10%, of the computation and memory of an average stage or,
    if that leaves no better cut, the time of sending the value. Values that depend only on weights
    never count.

    Among all cuts into `pp` stages, the pass chooses those whose slowest stage is fastest by the
    cost model, including embedding and head. Among equals (within 1%) it chooses the most balanced
    ones. Each cut is charged for its message at both ends, only beyond the cheapest message,
    because every cut pays at least that.

    A stage may begin within a layer, where the layer's function has exactly one live value; the
    function is then split in two. This is done if the slowest stage becomes faster by more than 5%,
    and the weights of the rank with the most grow by no larger a factor.

    The pass warns of a stage without a layer, and of one that takes more than 1.5 times the mean,
    with the reason; `tpc.warnings` on the module keeps the warning for reports.

    The result is an @main that calls @stage_0 ... in order. Each stage takes the value of the
    previous stage and the inputs that it needs, and returns the value for the next stage and its
    outputs. Each function gets estimates: `tpc.seconds` of its ops, of which `tpc.layer_seconds` in
    layers and `tpc.recomputed_seconds` for values that other stages compute too;
    `tpc.transfer_seconds` of the messages from and to its neighbors; `tpc.weight_bytes`.

    If ops request a stage (`tpc.pipeline_stage`, from the file's own device configuration), the
    pass cuts between them.

    Errors: more stages than possible cuts; an op that needs a value of a later stage; requested
    stages that do not ascend, or without a possible cut between them; a request inside of a
    function.
  }];
  let options = [ListOption<"cuts", "cuts", "int64_t",
      "Indices of the cuts among the possible ones (from 0, ascending), one less than stages">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def SchedulePipeline : Pass<"tpc-schedule-pipeline", "::mlir::ModuleOp"> {
  let summary = "Convert @main's stage calls to a tpc.pipeline";
  let description = [{
    Each call of a stage becomes a `tpc.stage`. For each micro-batch it receives from the previous
    stage, computes, sends to the next one, and delivers outputs. A single stage has the same form,
    so that lowering handles only this form. If the batch is split (`tpc.batch`), all stages skip
    micro-batches without samples, and a replica without samples idles. If there is communication
    between replicas (weights that an annotation splits over dp), all replicas take part in all
    micro-batches: the loop is over a dimension with one element for each of them.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoistInvariants : Pass<"tpc-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "Hoist computations that are equal for all micro-batches";
  let description = [{
    Runs on stages with several micro-batches. Values that the stage's function computes only from
    unsplit inputs, constants and sizes are equal in every micro-batch iteration: rotary tables of
    positions, masks, a lookup that needs the whole batch. The pass moves them into a private
    function that the stage calls once, before the micro-batches, and passes the results as
    arguments:

        tpc.stage 0 {                                    tpc.stage 0 {
          tpc.micro_batches of <batch{mb}> {               %m = func.call @stage_0_prologue(%mask)
            %y = func.call @stage_0(%ids, %mask)           tpc.micro_batches of <batch{mb}> {
            ...                                              %y = func.call @stage_0(%ids, %m)
          }                                                  ...
        }                                                  }
                                                         }

    Collectives over any axis but `pp` are hoisted too: the same ranks run them once.

    Not hoisted:

    * values that arrive from another stage;
    * calls of functions (layers), with all their ops;
    * values computed only from weights, as keeping them would be a second copy of weights;
    * values whose recomputation takes no longer than writing and reading them (the rule with which
      `tpc-split-stages` recomputes values in each stage, with this limit);
    * an op whose result is larger than its operands, such as an expansion, if it costs no more than
      reading the result; its operands are hoisted instead.

    Hoisted values take memory of the stage for the whole step: `--report` prints the bytes, and the
    peak of `--explain` includes them. The stage's estimates remain those with which it was cut.

    Programs with one micro-batch, and stages with nothing to hoist, are not changed.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

#endif // TPC_TRANSFORMS_STAGES_PASSES
