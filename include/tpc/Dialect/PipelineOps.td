//===- PipelineOps.td - Pipeline stages and their schedule ----------------===//

#ifndef TPC_DIALECT_PIPELINEOPS
#define TPC_DIALECT_PIPELINEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_PipelineOp : Tpc_Op<"pipeline", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "The schedule of a staged program: the work of each stage in one step";
  let description = [{
    The block's arguments are the model's inputs, unsplit, on every rank. The body contains one
    `tpc.stage` for each coordinate of `pp`, in order. `input_attrs` are @main's argument attributes
    (`tpc.name`, …). `outputs` describe the results by one dictionary {name, type} each, with global
    types.

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
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$input_attrs, ArrayAttr:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let hasCustomAssemblyFormat = 1;
}

def Tpc_StageOp : Tpc_Op<"stage", [HasParent<"PipelineOp">, SingleBlock, NoTerminator]> {
  let summary = "The work of the ranks with this coordinate on pp in one step";
  let description = [{
    Contains `tpc.micro_batches`. The ops before it are the prologue: they run once per step, on all
    ranks of the stage, also on replicas without samples. Each micro-batch iteration reads the same
    prologue values, which stay live until the stage ends:

        tpc.stage 0 {
          %cos, %sin = func.call @stage_0_prologue(%positions) : (...) -> (...)
          tpc.micro_batches of <batch{dp, mb}> {
            %x = func.call @stage_0(%ids, %cos, %sin) : (...) -> (...)
            tpc.send %x to 1 : ...
          }
        }

    No micro-batch exists outside of the micro-batch iterations: no value there may have a type that
    is split over `mb`. `tpc-hoist-invariants` creates this form; transfers and outputs are always
    inside `tpc.micro_batches`.
  }];
  let arguments = (ins I64Attr:$index);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$index attr-dict-with-keyword $body";
}

def Tpc_MicroBatchesOp
    : Tpc_Op<"micro_batches", [HasParent<"StageOp">, SingleBlock, NoTerminator]> {
  let summary = "Repeats its body for each non-empty micro-batch, in order";
  let description = [{
    Inside, the axis `mb` has a coordinate. The replica's shard of the batch is split evenly over
    the grid's number of micro-batches, so at most min(mb, local batch) of them are not empty.
    `batch` is the dimension that is split: `of <batch{dp, mb}>`. A constant size equal to the
    number of micro-batches, `of <4{mb}>`, runs the body four times on every replica, also on
    replicas without samples; they are needed where replicas communicate. Without `batch` the body
    runs once.
  }];
  let arguments = (ins OptionalAttr<Tpc_DimAttr>:$batch);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`of` $batch^)? attr-dict-with-keyword $body";
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
  let summary = "Delivers this rank's shard of an output; the runtime assembles it on world rank 0";
  let description = [{
    The value is fully reduced and may be split in any way. If several ranks have the same shard,
    the one with coordinate 0 delivers it.
  }];
  let arguments = (ins I64Attr:$index, Tpc_Tensor:$value);
  let hasVerifier = 1;
  let assemblyFormat = "$index `,` $value attr-dict `:` type($value)";
}

#endif
