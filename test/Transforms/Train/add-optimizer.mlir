// tpc-add-optimizer turns gradients into updates. The moments are weights without a file; the
// transpose of an updated weight is computed from it.
// RUN: tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer=optimizer=sgd | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer="optimizer=sgd:momentum=0.9,decay=0.1 no-decay=do*" | FileCheck %s --check-prefixes=CHECK,MOMENTUM
// RUN: tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer=optimizer=adamw:clip=1 | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: tpc-opt %S/../Inputs/training.mlir --canonicalize --tpc-simplify --tpc-add-optimizer --tpc-simplify | FileCheck %s --check-prefix=TRANSPOSE

// SGD: tpc.optimizer = {name = "sgd"}
// MOMENTUM: tpc.optimizer = {name = "sgd"}
// ADAM: tpc.optimizer = {beta1 = {{9.0+e-01}} : f64, beta2 = {{9.99[0-9]+e-01|0.99[0-9]+}} : f64, name = "adamw"}

// SGD-NOT: @sgd.momentum
// MOMENTUM: tpc.weight @sgd.momentum.up in "" at 0 : tensor<8x12xf32>
// ADAM: tpc.weight @adamw.mean.up in "" at 0 : tensor<8x12xf32>
// ADAM: tpc.weight @adamw.variance.up in "" at 0 : tensor<8x12xf32>

// CHECK: func.func @main(
// CHECK-SAME: tpc.name = "labels"
// CHECK-SAME: tensor<f32> {tpc.name = "learning_rate"}
// ADAM-SAME: tensor<f32> {tpc.name = "correction1"}
// ADAM-SAME: tensor<f32> {tpc.name = "correction2"}
// CHECK-SAME: (tensor<f32> {tpc.name = "loss"}, tensor<f32> {tpc.name = "grad_norm"}
// CHECK-SAME: tensor<8x12xf32> {tpc.name = "up", tpc.update = [@up]}
// CHECK-SAME: tensor<12x4xf32> {tpc.name = "down", tpc.update = [@down]}
// CHECK-SAME: tensor<4xf32> {tpc.name = "shift", tpc.update = [@shift]}
// MOMENTUM-SAME: tpc.update = [@sgd.momentum.up]
// ADAM-SAME: tpc.update = [@adamw.mean.up]
// ADAM-SAME: tpc.update = [@adamw.variance.up]

// The norm of all gradients.
// CHECK: %[[SUM:.*]] = tpc.add %{{.*}}, %{{.*}} : tensor<f32>, tensor<f32>
// CHECK: %[[NORM:.*]] = tpc.sqrt
// A step whose loss or norm is not finite changes no parameter.
// CHECK: %[[SIZE:.*]] = tpc.abs %[[LOSS:.*]] : tensor<f32>
// CHECK: %[[ALL:.*]] = tpc.add %[[SIZE]], %[[NORM]]
// CHECK: %[[MAX:.*]] = tpc.constant dense<3.40282347E+38>
// CHECK: %[[FINITE:.*]] = tpc.cmp le %[[ALL]], %[[MAX]]
// ADAM: tpc.min

// Only `up` has decay: `down` matches a pattern, and `shift` has one dimension.
// MOMENTUM: %[[DECAY:.*]] = tpc.constant dense<1.000000e-01>
// MOMENTUM-NEXT: tpc.mul %{{.*}}, %[[DECAY]] : tensor<8x12xf32>
// MOMENTUM-NOT: dense<1.000000e-01>

// CHECK: tpc.select %[[FINITE]], %{{.*}}, %{{.*}} : tensor<i1>, tensor<4xf32>, tensor<4xf32>
// CHECK: return %[[LOSS]], %[[NORM]],

// TRANSPOSE: tpc.parameter @down : tensor<12x4xf32>
// TRANSPOSE-NOT: tpc.parameter @down
// TRANSPOSE: tpc.transpose %{{.*}} [1, 0] : tensor<12x4xf32>
// TRANSPOSE-NOT: tpc.parameter @down
