//===- PipelineOps.td - Pipeline stages and their schedule ----------------===//

#ifndef TPC_DIALECT_PIPELINEOPS
#define TPC_DIALECT_PIPELINEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_PipelineOp : Tpc_Op<"pipeline", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "Schedule of a staged program: the ops of each stage in one step";
  let description = [{
    The block's arguments are the model's inputs, replicated on every rank. The body contains one
    `tpc.stage` for each coordinate of `pp`, in order. `schedule` orders the events of each stage;
    without it, a stage runs its loops one after the other. `input_attrs` are @main's argument
    attributes (`tpc.name`, …). `outputs` has one dictionary {name, type} per result, with the
    global type.

        tpc.pipeline @main(%ids : tensor<?x?xi64, ...>) outputs [ ... ] {
          tpc.stage 0 {
            tpc.micro_batches {
              %x = func.call @stage_0(%ids) : (...) -> (...)
              tpc.send %x to 1 : ...
            }
          }
          tpc.stage 1 {
            tpc.micro_batches {
              %x = tpc.recv from 0 : ...
              %y = func.call @stage_1(%x, %ids) : (...) -> (...)
              tpc.output 0, %y : ...
            }
          }
        }
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$input_attrs, ArrayAttr:$outputs,
                       OptionalAttr<Tpc_ScheduleAttr>:$schedule);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let hasCustomAssemblyFormat = 1;
}

def Tpc_StageOp : Tpc_Op<"stage", [HasParent<"PipelineOp">, SingleBlock, NoTerminator]> {
  let summary = "Ops that the ranks with this pp coordinate run in one step";
  let description = [{
    Contains one `tpc.micro_batches` for each chunk of the model. The ops before these are the
    prologue. They run once per step on all ranks of the stage, including replicas without samples.
    All micro-batch iterations read the prologue's results, which stay live until the stage ends:

        tpc.stage 0 {
          %cos, %sin = func.call @stage_0_prologue(%positions) : (...) -> (...)
          tpc.micro_batches of <batch{dp, mb}> {
            %x = func.call @stage_0(%ids, %cos, %sin) : (...) -> (...)
            tpc.send %x to 1 : ...
          }
        }

    Values outside of `tpc.micro_batches` must not be split over `mb`. `tpc-hoist-invariants`
    creates prologues. Transfers and outputs are always inside `tpc.micro_batches`.
  }];
  let arguments = (ins I64Attr:$index);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$index attr-dict-with-keyword $body";
}

def Tpc_MicroBatchesOp
    : Tpc_Op<"micro_batches", [HasParent<"StageOp">, SingleBlock, NoTerminator]> {
  let summary = "Repeats its body for each non-empty micro-batch, in order";
  let description = [{
    The coordinate of `mb` in the body is the micro-batch index. The replica's shard of the batch is
    split evenly over the grid's number of micro-batches, so at most min(mb, local batch) of them
    are not empty. `batch` is the split dimension: `of <batch{dp, mb}>`. A constant dimension equal
    to the number of micro-batches, `of <4{mb}>`, runs the body four times on every replica,
    including replicas without samples. Programs with communication between replicas have this form.
    Without `batch` the body runs once.

    In a pipeline with a schedule, an iteration consists of three phases, which the schedule orders:
    `tpc.recv` ops first, then all other ops, `tpc.send` ops at the end.
  }];
  let arguments = (ins OptionalAttr<Tpc_DimAttr>:$batch);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`of` $batch^)? attr-dict-with-keyword $body";
  let extraClassDeclaration = [{
    /// Returns the phase of an op of the body.
    static ::tpc::SchedulePhase getPhase(Operation *op);
    /// Returns the ops of the body that an event of this phase runs.
    SmallVector<Operation *> getOps(::tpc::SchedulePhase phase);
  }];
}

def Tpc_SendOp : Tpc_Op<"send"> {
  let summary = "Sends a value to the rank of another stage with equal coordinates on all axes but "
                "pp. MPI_Send over pp.";
  let arguments = (ins Tpc_Tensor:$value, I64Attr:$to);
  let hasVerifier = 1;
  let assemblyFormat = "$value `to` $to attr-dict `:` type($value)";
}

def Tpc_RecvOp : Tpc_Op<"recv"> {
  let summary = "Receives a value from another stage. Messages between two stages arrive in order. "
                "MPI_Recv over pp.";
  let arguments = (ins I64Attr:$from);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "`from` $from attr-dict `:` type($result)";
}

def Tpc_OutputOp : Tpc_Op<"output"> {
  let summary = "Delivers this rank's shard of an output to world rank 0, which assembles the "
                "output";
  let description = [{
    The value is fully reduced and may be split over any axes. If the shard is replicated over an
    axis, the rank with coordinate 0 on that axis delivers it.
  }];
  let arguments = (ins I64Attr:$index, Tpc_Tensor:$value);
  let hasVerifier = 1;
  let assemblyFormat = "$index `,` $value attr-dict `:` type($value)";
}

#endif
