//===- Passes.td - What users ask of weights and values ---------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_ANNOTATIONS_PASSES
#define TPC_TRANSFORMS_ANNOTATIONS_PASSES

include "mlir/Pass/PassBase.td"

def ApplyAnnotations : Pass<"tpc-apply-annotations", "::mlir::ModuleOp"> {
  let summary = "Read a file of annotations onto weights, inputs and values";
  let description = [{
    Works on the imported program. A line of `file` is a pattern and a list,

        h.*.mlp.c_fc.weight: [-, tp]     # `-`: not split, `tp+dp`: both, `?`: left to the other tactics

    and gives `tpc.sharding` to every weight (by its ONNX initializer's name), input and value
    (by its ONNX name) that the pattern matches; `*` is any characters, `?` is one.

    With `shard`, the multi-device fields of the ONNX file (IR version 11) are read as well, before
    `file`: the device configuration named `configuration`, or the one that has
    as many devices as the grid has ranks. Device numbers are ranks; the parts of a tensor
    must lie along axes of the grid. Pipeline stages of nodes say where stages are cut.

    Errors name file, line and column: a line that is none; a pattern that matches nothing; a list
    that has not as many entries as the tensor has dimensions; an axis that there is not,
    or that is twice in a list; two lines that say different things of one tensor.
  }];
  let options = [Option<"file", "file", "std::string", "", "The file">,
                 Option<"shard", "shard", "std::string", "", "What --megatron-shard takes, which has the grid">,
                 Option<"configuration", "configuration", "std::string", "", "Which of the file's device configurations">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoldAnnotations : Pass<"tpc-hold-annotations", "::mlir::ModuleOp"> {
  let summary = "Keep annotations of values while the model is recognized";
  let description = [{
    Makes a `tpc.annotation` of `tpc.sharding` and `tpc.pipeline_stage` on an op with one result: it uses
    that, and so whatever the result is replaced by. The first pass of the model level; see
    tpc-place-annotations. Calls keep theirs.

        %y = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<16{tp}>]} : …
    is
        %y = tpc.gelu tanh %x : …
        …
        tpc.annotation %y "act" {sharding = [unit, #tpc.dim<16{tp}>]} : …
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PlaceAnnotations : Pass<"tpc-place-annotations", "::mlir::ModuleOp"> {
  let summary = "Put held annotations back on ops";
  let description = [{
    Makes attributes of each `tpc.annotation` again, and erases what is there for annotations alone. Before
    repeated layers become functions: layers that are annotated in different ways are different.
    A value that the model only has in another shape (`[batch, sequence, 64]` is
    `[batch * sequence, 64]`), or transposed, is annotated there. Also puts the stages of nodes
    (`tpc.held_stages`) on the ops that are made of them, which locations name.
    Errors: a value that has become part of a larger op; one whose dimensions are not those of the
    value that there is now, or that is one with an input; two that are one value and annotated in
    different ways.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_ANNOTATIONS_PASSES
