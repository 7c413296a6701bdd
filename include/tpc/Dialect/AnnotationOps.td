//===- AnnotationOps.td - User annotations of values -------*- tablegen -*-===//

#ifndef TPC_DIALECT_ANNOTATIONOPS
#define TPC_DIALECT_ANNOTATIONOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_AnnotationOp : Tpc_Op<"annotation", [MemoryEffects<[MemWrite]>]> {
  let summary = "A user annotation of a value during recognition";
  let description = [{
    `tpc.annotation %y "act" {sharding = [unit, #tpc.dim<16{tp}>], source = "a.txt:1:1"} : …`.
    Rewrites drop the attributes of ops that they replace. An annotation uses the value instead, so
    it follows the value through replacements. `tpc-materialize-annotations`, the first pass of the
    model level, converts `tpc.sharding` and `tpc.pipeline_stage` to annotation ops at the end of
    the block. `tpc-attach-annotations`, before layers become functions, converts them back to
    attributes.
    Until then, passes query the uses of a value through `Annotations.h`, which ignores these ops:
    recognition must not depend on them. The memory effect only keeps the op from being dead.

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
