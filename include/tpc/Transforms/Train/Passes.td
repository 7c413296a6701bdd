//===- Passes.td - Passes that create training steps -------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_TRAIN_PASSES
#define TPC_TRANSFORMS_TRAIN_PASSES

include "mlir/Pass/PassBase.td"

def AddOptimizer : Pass<"tpc-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Turn gradients into updates of weights";
  let description = [{
    The results of `@main` are `loss` and gradients, `grad.<weight>`, or `grad.<weight>.at<offset>`
    for the view of a weight at that offset. The pass replaces each gradient by the new elements of
    its parameter, with the attribute `tpc.update`, and by those of the optimizer's moments.

    ```mlir
    func.func @main(%ids) -> (tensor<f32> {tpc.name = "loss"}, [8, 4] {tpc.name = "grad.w"})
    ```
    becomes, with `sgd:momentum=0.9`,
    ```mlir
    tpc.weight @sgd.momentum.w in "" at 0 : tensor<8x4xf32>
    func.func @main(%ids, %learning_rate: tensor<f32>)
        -> (tensor<f32> {tpc.name = "loss"}, tensor<f32> {tpc.name = "grad_norm"},
            [8, 4] {tpc.update = [@w]}, [8, 4] {tpc.update = [@sgd.momentum.w]})
    ```
    Moments are weights without a file: their elements are 0 before the first step. All ops are
    element-wise on a weight and values of its type, so moments and gradients are distributed like
    their weight. `grad_norm` is the norm of all gradients before clipping. Its sum over a sharded
    gradient is a partial sum over the axes that shard it; a replicated gradient counts once.

    `optimizer` is a name and settings: `sgd:momentum=0,decay=0,clip=0` or
    `adamw:beta1=0.9,beta2=0.999,epsilon=1e-8,decay=0.01,clip=0`. `decay` is the weight decay:
    added to the gradient by `sgd`, decoupled in `adamw`. It applies to weights with two or more
    dimensions whose names no pattern of `no-decay` matches. With `clip` above 0, gradients are
    multiplied by `min(1, clip / (grad_norm + 1e-6))`. The formulas are those of PyTorch. The
    learning rate, and for `adamw` the factors `1 - beta^step`, are inputs. If the loss or
    `grad_norm` is not finite, weights and moments keep their elements. Both are equal on all ranks.

    Transposes of an updated weight are computed from it, so that its elements exist once. Errors:
    no loss; no gradient; a gradient of an unknown weight, or of another type; another view that
    overlaps an updated one.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "Name and settings">,
    Option<"noDecay", "no-decay", "std::string", "",
           "Patterns of weights without decay, separated by commas: *.wte.*,*norm*">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
