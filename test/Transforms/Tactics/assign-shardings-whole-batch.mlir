// RUN: tpc-opt %s --tpc-assign-shardings=shard=dp2,mb2 --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-assign-shardings=shard=dp2,mb2 --tpc-insert-reshards --split-input-file | FileCheck %s --check-prefix=RESHARD

// Values that depend on inputs alone, but on all samples, are replicated, with all of their
// operands. Users slice them. Weights are loaded for all micro-batches.

// CHECK: splits = ["batch 6 over 2 replicas, 2 micro-batches; whole in 2 ops that depend on inputs alone, such as 'all'"]
// CHECK-LABEL: func.func @main
tpc.weight @rows in "w" at 0 : tensor<6x40xf32>
func.func @main(%x: tensor<6x40xf32>, %mask: tensor<6x40xf32>) -> tensor<6x40xf32> {
  // CHECK: tpc.parameter @rows {tpc.split = [#tpc.dim<6{dp}>, #tpc.dim<40>]}
  %rows = tpc.parameter @rows : tensor<6x40xf32>
  // CHECK: tpc.exp %arg1 :
  %e = tpc.exp %mask : tensor<6x40xf32> -> tensor<6x40xf32>
  // CHECK: tpc.softmax %{{.*}} dim 0 :
  %s = tpc.softmax %e dim 0 : tensor<6x40xf32> -> tensor<6x40xf32> loc("all")
  // CHECK: tpc.mul {{.*}} {tpc.split = [#tpc.dim<6{dp, mb}>, #tpc.dim<40>]}
  // RESHARD: %[[S:.*]] = tpc.softmax
  // RESHARD: tpc.reshard %[[S]] : tensor<6x40xf32> -> tensor<6x40xf32, #tpc.dist<[6{dp, mb}, 40]>>
  %m = tpc.mul %x, %s : tensor<6x40xf32>, tensor<6x40xf32> -> tensor<6x40xf32>
  %y = tpc.add %m, %rows : tensor<6x40xf32>, tensor<6x40xf32> -> tensor<6x40xf32>
  return %y : tensor<6x40xf32>
}

// -----

// Two inputs begin with size 30, only one with b. A weight also has size 30, so 30 is not the batch,
// and is not split.
// CHECK: splits = ["batch b over 2 replicas, 2 micro-batches"]
// CHECK-LABEL: func.func @main
tpc.weight @w in "w" at 0 : tensor<40x30xf32>
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[b, 40]>>, %m: tensor<30x?xf32, #tpc.dist<[30, b]>>,
                %n: tensor<30x?xf32, #tpc.dist<[30, b]>>) -> tensor<2x?xf32, #tpc.dist<[2, b]>> {
  %w = tpc.parameter @w : tensor<40x30xf32>
  %0 = tpc.matmul %x, %w : tensor<?x40xf32, #tpc.dist<[b, 40]>>, tensor<40x30xf32> -> tensor<?x30xf32, #tpc.dist<[b, 30]>>
  %1 = tpc.transpose %0 [1, 0] : tensor<?x30xf32, #tpc.dist<[b, 30]>> -> tensor<30x?xf32, #tpc.dist<[30, b]>>
  %2 = tpc.mul %1, %m : tensor<30x?xf32, #tpc.dist<[30, b]>>, tensor<30x?xf32, #tpc.dist<[30, b]>> -> tensor<30x?xf32, #tpc.dist<[30, b]>>
  %3 = tpc.mul %2, %n : tensor<30x?xf32, #tpc.dist<[30, b]>>, tensor<30x?xf32, #tpc.dist<[30, b]>> -> tensor<30x?xf32, #tpc.dist<[30, b]>>
  %4 = tpc.slice %3 dim 0 from 10 step 3 : tensor<30x?xf32, #tpc.dist<[30, b]>> -> tensor<2x?xf32, #tpc.dist<[2, b]>>
  return %4 : tensor<2x?xf32, #tpc.dist<[2, b]>>
}
