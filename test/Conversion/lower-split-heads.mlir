// RUN: tpc-opt %s --split-input-file --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=heads | FileCheck %s

// Four query heads for each of two kv heads, over two ranks: a rank's heads are 0, 1, 4 and 5,
// which are not contiguous. Its groups have two heads; the call has local counts, four query heads
// and two kv heads.
// CHECK-LABEL: llvm.func internal @stage_0(
// CHECK-DAG: %[[ARGS:.*]] = llvm.alloca {{.*}}struct<(ptr, ptr, ptr, ptr, i64
// CHECK-DAG: %[[TWO:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[FOUR:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: %[[Q:.*]] = llvm.getelementptr {{.*}}%[[ARGS]]{{.*}}[0, 7]
// CHECK: llvm.store %[[FOUR]], %[[Q]]
// CHECK: %[[K:.*]] = llvm.getelementptr {{.*}}%[[ARGS]]{{.*}}[0, 8]
// CHECK: llvm.store %[[TWO]], %[[K]]
// CHECK: llvm.call @tpc_attention(
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
func.func private @stage_0(%q: tensor<1x5x4x4xf32, #tpc.dist<[1, 5, 2 * 4{tp}, 4], local>>, %k: tensor<1x5x2x4xf32>) -> tensor<1x5x4x4xf32, #tpc.dist<[1, 5, 2 * 4{tp}, 4], local>> {
  %0 = tpc.attention %q, %k, %k scale 0.5 : tensor<1x5x4x4xf32, #tpc.dist<[1, 5, 2 * 4{tp}, 4], local>>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32> -> tensor<1x5x4x4xf32, #tpc.dist<[1, 5, 2 * 4{tp}, 4], local>>
  return %0 : tensor<1x5x4x4xf32, #tpc.dist<[1, 5, 2 * 4{tp}, 4], local>>
}
}

// -----

// The split factor consists of several factors of the weight: heads in two blocks, or kv heads
// replicated twice.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @blocks in "/w.bin" at 0 : tensor<24xf32>
tpc.weight @twice in "/w.bin" at 0 : tensor<6xf32>
tpc.pipeline @main(%x: tensor<?x12xf32, #tpc.dist<[n, 12], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?x12xf32, #tpc.dist<[n, 12]>>}] {
  tpc.stage 0 {
    tpc.micro_batches of #tpc.dim<n> {
      %b = tpc.parameter @blocks view <0 [[2 x 12, 2 x 3, 3 x 1]]> : tensor<6xf32, #tpc.dist<[4{tp} * 3], local>>
      %t = tpc.parameter @twice view <0 [[2 x 3, 2 x 0, 3 x 1]]> : tensor<6xf32, #tpc.dist<[4{tp} * 3], local>>
      %0 = tpc.local_slice %x over ["tp"] dim 1 : tensor<?x12xf32, #tpc.dist<[n, 12], local>> -> tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>
      %1 = tpc.add %0, %b : tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>, tensor<6xf32, #tpc.dist<[4{tp} * 3], local>> -> tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>
      %2 = tpc.add %1, %t : tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>, tensor<6xf32, #tpc.dist<[4{tp} * 3], local>> -> tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>
      tpc.output 0, %2 : tensor<?x6xf32, #tpc.dist<[n, 4{tp} * 3], local>>
    }
  }
}
}
// CHECK: tpc_manifest
// CHECK-SAME: \22axes\22:[\22tp\22],\22of\22:[{\22size\22:2,\22stride\22:12},{\22size\22:2,\22stride\22:3}],\22size\22:4}
// CHECK-SAME: \22axes\22:[\22tp\22],\22of\22:[{\22size\22:2,\22stride\22:3},{\22size\22:2,\22stride\22:0}],\22size\22:4}
