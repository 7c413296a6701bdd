//===- AnnotationOps.td - User annotations of values -------*- tablegen -*-===//

#ifndef TPC_DIALECT_ANNOTATIONOPS
#define TPC_DIALECT_ANNOTATIONOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_AnnotationOp : Tpc_Op<"annotation", [MemoryEffects<[MemWrite]>]> {
  let summary = "A user annotation of a value during recognition";
  let description = [{
    `tpc.annotation %y "act" {sharding = [unit, #tpc.dim<16{tp}>], source = "a.txt:1:1"} : …`.
    A rewrite that replaces an op drops the op's discardable attributes. An annotation op instead
    has the value as an operand, so `replaceAllUsesWith` moves it to the replacement.
    `tpc-materialize-annotations`, the first pass of the model level, converts `tpc.sharding` and
    `tpc.pipeline_stage` to annotation ops at the end of the block. `tpc-attach-annotations`, before
    layers become functions, converts them back to attributes. Passes between these two query the
    uses of a value through the functions of `Annotations.h`, which ignore annotation ops:
    annotations must not change what is recognized. The memory effect keeps dead-code elimination
    from erasing the op.

    `name` is the value's name in the file, for messages. `sharding` has an entry for each dimension
    of the value, like `tpc.sharding`. `source` is the location of the user's annotation. `stage` is
    the pipeline stage of the op that computes the value.
    Errors: neither a sharding nor a stage; a distributed value, because annotations must be
    converted back before distribution.
  }];
  let arguments = (ins Tpc_Tensor:$value, StrAttr:$name, OptionalAttr<ArrayAttr>:$sharding,
                       OptionalAttr<StrAttr>:$source,
                   OptionalAttr<I64Attr>:$stage);
  let hasVerifier = 1;
  let assemblyFormat = "$value $name attr-dict `:` type($value)";
}

#endif
