// RUN: tpc-opt %S/Inputs/repeated-heads.mlir --tpc-alias-caches | FileCheck %s --check-prefix=HELD
// RUN: tpc-opt %S/Inputs/repeated-heads.mlir --tpc-alias-caches --tpc-outline-kernels --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s --check-prefix=PLAN
// RUN: tpc-opt %s --tpc-alias-caches | FileCheck %s

// HELD-LABEL: func.func private @layer(
// HELD-SAME: %[[K:[^:]*]]: tensor<?x1x?x8xf32, #tpc.dist<[b, 4{tp}, c, 8], local>>
// HELD-NEXT: tpc.append %[[K]]
// HELD-NEXT: return
// HELD-LABEL: func.func private @stage
// HELD-NOT: tpc.gather
// HELD: return
// HELD-LABEL: tpc.pipeline @main
// HELD: %[[I:.*]] = tpc.constant dense<[0, 0, 1, 1]>
// HELD-NEXT: %[[IT:.*]] = tpc.local_slice %[[I]] over ["tp"] dim 0 {tpc.aliased}
// HELD-NEXT: tpc.gather %{{.*}}, %[[IT]] dim 1 {tpc.aliased}
// HELD: tpc.local_slice {{.*}} {tpc.aliased}
// HELD-NEXT: tpc.gather {{.*}} {tpc.aliased}
// HELD-NEXT: call @stage

// PLAN-LABEL: tpc_buffer.func @main_stage_0_on_buffers
// PLAN: %[[S0:.*]] = tpc_buffer.state @k0 : "_4.tp*_8*b*c" x f32
// PLAN-NEXT: %[[S1:.*]] = tpc_buffer.state @k1 : "_4.tp*_8*b*c" x f32
// PLAN-NOT: tpc_buffer.constant
// PLAN: tpc_buffer.call @stage_on_buffers(%{{.*}}, %{{.*}}, %[[S0]], %[[S1]])

// A gather of new keys is unchanged: it is not a view of the cache.
!n = tensor<?xi64, #tpc.dist<[b], local>>
!k = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!x = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!new = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>
!whole = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8]>>
module {
tpc.cache @k0 : !whole
// CHECK-LABEL: func.func private @layer
// CHECK: tpc.gather %{{.*}}, %{{.*}} dim 1 : tensor<?x2x?x8xf32
// CHECK-NEXT: tpc.append
func.func private @layer(%n: !n, %x: !x, %k: !k) -> !k {
  %0 = tpc.constant dense<[0, 0, 1, 1]> : tensor<4xi64> : tensor<4xi64>
  %1 = tpc.gather %x, %0 dim 1 : !x, tensor<4xi64> -> !new
  %2 = tpc.append %k, %1 at %n : !k, !new, !n -> !k
  return %2 : !k
}
tpc.pipeline @main(%n: !n, %x: !x, %k: !k) inputs [{}, {}, {tpc.cache = @k0}] outputs [{name = "k0", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @layer(%n, %x, %k) : (!n, !x, !k) -> !k
      tpc.output 0, %0 : !k
    }
  }
}
}
