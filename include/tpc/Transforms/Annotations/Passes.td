//===- Passes.td - Passes for user annotations -------------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_PASSES
#define TPC_TRANSFORMS_ANNOTATIONS_PASSES

include "mlir/Pass/PassBase.td"

def ApplyAnnotations : Pass<"tpc-apply-annotations", "::mlir::ModuleOp"> {
  let summary = "Apply a file of annotations to weights, inputs and values";
  let description = [{
    Runs on the imported program. Each line of `file` is a pattern and a list,

            h.*.mlp.c_fc.weight: [-, tp]     # `-`: not split, `tp+dp`: both, `?`: unconstrained

    and sets `tpc.sharding` on every weight, input and value whose ONNX name matches the pattern.
    `*` matches any characters, `?` matches one.

    With `shard`, the pass first reads the multi-device fields of the ONNX file (IR version 11): the
    device configuration named `configuration`, or the configuration whose number of devices is the
    number of ranks. Device numbers are ranks; the shards of a tensor must be along axes of the
    grid. The pipeline stages of nodes determine the stage boundaries.

    Errors, with file, line and column: an invalid line; a pattern without a match; a list whose
    length differs from the tensor's rank; an unknown or repeated axis; two lines with different
    shardings of one tensor.
  }];
  let options = [
    Option<"file", "file", "std::string", "", "The file">,
    Option<"shard", "shard", "::tpc::ShardSpec", "", "Value of --megatron-shard, for the grid">,
    Option<"configuration", "configuration", "std::string", "",
           "Name of the file's device configuration">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def MaterializeAnnotations : Pass<"tpc-materialize-annotations", "::mlir::ModuleOp"> {
  let summary = "Convert annotations of values to annotation ops";
  let description = [{
    Converts `tpc.sharding` and `tpc.pipeline_stage` on an op with one result to a `tpc.annotation`.
    Its operand is the result, so it stays attached to the value when passes replace the op. This is
    the first pass of the model level; `tpc-attach-annotations` reverts the conversion. Calls keep
    their attributes.

        %y = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<16{tp}>]} : …
    becomes
        %y = tpc.gelu tanh %x : …
        …
        tpc.annotation %y "act" {sharding = [unit, #tpc.dim<16{tp}>]} : …
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def AttachAnnotations : Pass<"tpc-attach-annotations", "::mlir::ModuleOp"> {
  let summary = "Convert annotation ops back to attributes";
  let description = [{
    Converts each `tpc.annotation` to attributes, and erases ops that only annotations use. Runs
    before repeated layers become functions: layers with different annotations are different. If the
    annotated value now exists only in another shape (`[batch * sequence, 64]` for `[batch,
    sequence, 64]`) or transposed, the annotation is converted to that shape. Also sets the pipeline
    stages of nodes (`tpc.recorded_stages`) on ops whose locations name the nodes. Errors: an
    annotated value that was fused into a larger op; dimensions that do not match those of the
    replacement; a value that was merged with an input; two merged values with different
    annotations.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_ANNOTATIONS_PASSES
