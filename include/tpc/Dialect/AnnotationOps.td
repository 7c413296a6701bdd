//===- AnnotationOps.td - What users want of values -------------*- tablegen -*-===//

#ifndef TPC_DIALECT_ANNOTATIONOPS
#define TPC_DIALECT_ANNOTATIONOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_AnnotationOp : Tpc_Op<"annotation", [MemoryEffects<[MemWrite]>]> {
  let summary = "What a user wants of a value, while the model is recognized";
  let description = [{
    `tpc.annotation %y "act" {sharding = [unit, #tpc.dim<16{tp}>], source = "a.txt:1:1"} : …`. Rewrites drop the
    attributes of ops that they replace. An annotation uses the value instead: what replaces the value is annotated. So
    `tpc-hold-annotations`, the first pass of the model level, makes of `tpc.sharding` and `tpc.pipeline_stage` an op at the
    end of the block, and `tpc-place-annotations`, before layers become functions, makes attributes of it again.
    Until then all that asks who uses a value asks `Annotations.h`, which does not count these ops: recognition must not
    depend on them. Its effect is only that it is not dead.

    `name` is the value's in the file, for messages; `sharding` has an entry for each dimension of the value, as
    `tpc.sharding` has; `source` is where the user said so; `stage` is the pipeline stage of what computes the value.
    Errors: neither a sharding nor a stage; a value that is distributed: the annotation should have been placed.
  }];
  let arguments = (ins Tpc_Tensor:$value, StrAttr:$name, OptionalAttr<ArrayAttr>:$sharding, OptionalAttr<StrAttr>:$source,
                   OptionalAttr<I64Attr>:$stage);
  let hasVerifier = 1;
  let assemblyFormat = "$value $name attr-dict `:` type($value)";
}

#endif
