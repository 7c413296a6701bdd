// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2 --tpc-insert-reshards --split-input-file | FileCheck %s

// In exports of untrained models, one vector of zeros is the bias of all matmuls. The columns of
// one matmul are split, those of the other are not.
// CHECK-LABEL: @main
// CHECK: tpc.parameter @zeros : tensor<8xf32, #tpc.dist<[8{tp}]>>
// CHECK-COUNT-2: tpc.parameter @zeros : tensor<8xf32>
// CHECK-NOT: tpc.parameter @zeros
tpc.weight @up in "w" at 0 : tensor<8x8xf32>
tpc.weight @down in "w" at 256 : tensor<8x8xf32>
tpc.weight @zeros in "w" at 512 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %up = tpc.parameter @up : tensor<8x8xf32>
  %down = tpc.parameter @down : tensor<8x8xf32>
  %zeros = tpc.parameter @zeros : tensor<8xf32>
  %0 = tpc.matmul %x, %up bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %1 = tpc.gelu tanh %0 : tensor<5x8xf32> -> tensor<5x8xf32>
  %2 = tpc.matmul %1, %down bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %3 = tpc.add %2, %zeros : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  return %3 : tensor<5x8xf32>
}

// -----

// The same bias is passed to a layer that is called twice, through another function. Each use gets
// an argument of its own. An argument that is not a parameter in every call stays shared.
// CHECK-LABEL: @main
// CHECK-DAG: tpc.parameter @zeros : tensor<8xf32, #tpc.dist<[8{tp}]>>
// CHECK-DAG: tpc.parameter @zeros : tensor<8xf32>
// CHECK: call @between(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) :
// CHECK: call @between(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) :
// CHECK: func.func private @between(
// CHECK: call @layer(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) :
// CHECK: func.func private @layer(%{{.*}}: tensor<5x8xf32>, %{{.*}}: tensor<8x8xf32, #tpc.dist<[8, 8{tp}]>>, %{{.*}}: tensor<8x8xf32, #tpc.dist<[8{tp}, 8]>>,
// CHECK-SAME: %[[B1:.*]]: tensor<8xf32, #tpc.dist<[8{tp}]>>, %[[Y:.*]]: tensor<5x8xf32>, %{{.*}}: tensor<8xf32>, %[[B2:.*]]: tensor<8xf32>)
// CHECK: tpc.matmul {{.*}} bias %[[B1]]
// CHECK: tpc.add %{{.*}}, %[[B2]]
// CHECK: tpc.add %{{.*}}, %[[Y]]
// CHECK: tpc.add %{{.*}}, %[[Y]]
tpc.weight @up in "w" at 0 : tensor<8x8xf32>
tpc.weight @down in "w" at 256 : tensor<8x8xf32>
tpc.weight @zeros in "w" at 512 : tensor<8xf32>
tpc.weight @other in "w" at 1024 : tensor<5x8xf32>
tpc.weight @scale in "w" at 2048 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %up = tpc.parameter @up : tensor<8x8xf32>
  %down = tpc.parameter @down : tensor<8x8xf32>
  %zeros = tpc.parameter @zeros : tensor<8xf32>
  %other = tpc.parameter @other : tensor<5x8xf32>
  %scale = tpc.parameter @scale : tensor<8xf32>
  %0 = call @between(%x, %up, %down, %zeros, %other, %scale) : (tensor<5x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<5x8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  %1 = call @between(%0, %up, %down, %zeros, %0, %scale) : (tensor<5x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<5x8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  return %1 : tensor<5x8xf32>
}
func.func private @between(%x: tensor<5x8xf32>, %up: tensor<8x8xf32>, %down: tensor<8x8xf32>, %zeros: tensor<8xf32>, %y: tensor<5x8xf32>, %scale: tensor<8xf32>) -> tensor<5x8xf32> {
  %0 = call @layer(%x, %up, %down, %zeros, %y, %scale) : (tensor<5x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<5x8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}
func.func private @layer(%x: tensor<5x8xf32>, %up: tensor<8x8xf32>, %down: tensor<8x8xf32>, %zeros: tensor<8xf32>, %y: tensor<5x8xf32>, %scale: tensor<8xf32>) -> tensor<5x8xf32> {
  %n = tpc.rms_norm %x, %scale epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %0 = tpc.matmul %n, %up bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %1 = tpc.gelu tanh %0 : tensor<5x8xf32> -> tensor<5x8xf32>
  %2 = tpc.matmul %1, %down bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %3 = tpc.add %2, %y : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  %4 = tpc.add %3, %y : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  return %4 : tensor<5x8xf32>
}
