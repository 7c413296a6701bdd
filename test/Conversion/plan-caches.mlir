// RUN: tpc-opt %s --tpc-alias-caches --tpc-outline-kernels --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s

// Caches are persistent memory: this rank's shard for all micro-batches. Each micro-batch uses a
// slice. Layers append to an argument, so the result has no buffer of its own. Transposes are
// strides.
!ids = tensor<?xi64, #tpc.dist<[b], local>>
!mine = tensor<?xi64, #tpc.dist<[b{dp, mb}], local>>
!x = tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8], local>>
!h = tensor<?x?x2x8xf32, #tpc.dist<[b{dp, mb}, s, 4{tp}, 8], local>>
!new = tensor<?x2x?x8xf32, #tpc.dist<[b{dp, mb}, 4{tp}, s, 8], local>>
!k = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!kd = tensor<?x4x?x8xf32, #tpc.dist<[b{dp}, 4, c, 8], local>>
!kt = tensor<?x2x?x8xf32, #tpc.dist<[b{dp}, 4{tp}, c, 8], local>>
!km = tensor<?x2x?x8xf32, #tpc.dist<[b{dp, mb}, 4{tp}, c, 8], local>>
!keys = tensor<?x?x2x8xf32, #tpc.dist<[b{dp, mb}, c, 4{tp}, 8], local>>
!whole = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 1, mb = 4>} {
tpc.cache @k0 : !whole

// CHECK-LABEL: tpc_buffer.func @layer_on_buffers of @layer(
// CHECK-SAME: %[[X:.*]] = value 0 : {{.*}}, %[[N:.*]] = value 1 : {{.*}}, %[[K:.*]] = value 2 becomes 1 : {{.*}}) to (%[[Y:.*]] : "
// CHECK-NEXT: tpc_buffer.append %[[X]] at %[[N]] to %[[K]] batch "{{.*}}" heads _4.tp tokens s capacity c of _8 strides ["_4.tp*_8*s", _8, "_4.tp*_8"]
// CHECK-NEXT: tpc_buffer.attention %[[X]], %[[K]], %[[K]] lengths %[[N]] strides ["_4.tp*_8*c", "_8*c", "_4.tp*_8*c", "_8*c"] to %[[Y]]
// CHECK-SAME: keys c heads _4.tp of _8 kv_heads _4.tp of _8 strides ["_4.tp*_8", _8, _8, "_4.tp*_8"] causal 0
func.func private @layer(%x: !h, %n: !mine, %k: !km) -> (!h, !km) {
  %0 = tpc.transpose %x [0, 2, 1, 3] : !h -> !new
  %1 = tpc.append %k, %0 at %n : !km, !new, !mine -> !km
  %2 = tpc.transpose %1 [0, 2, 1, 3] : !km -> !keys
  %3 = tpc.attention causal %x, %2, %2 lengths %n scale 0.5 : !h, !keys, !keys lengths !mine -> !h
  return %3, %1 : !h, !km
}

// CHECK-LABEL: tpc_buffer.func @main_stage_0_on_buffers
// CHECK: %[[S:.*]] = tpc_buffer.state @k0 : "_4.tp*_8*c*floordiv(b - rank.dp + ranks.dp - 1, ranks.dp)" x f32
// CHECK: tpc_buffer.micro_batches
// CHECK: %[[P:.*]] = tpc_buffer.part %[[S]] from "
// CHECK-NOT: tpc_buffer.copy
// CHECK: tpc_buffer.call @layer_on_buffers(%{{.*}}, %{{.*}}, %[[P]]) to (%[[R:.*]])
// CHECK-NEXT: tpc_buffer.output 0, %[[R]]
// CHECK-NOT: tpc_buffer.output 1
tpc.pipeline @main(%n: !ids, %x: !x, %k: !k) inputs [{}, {}, {tpc.cache = @k0}]
    outputs [{name = "y", type = tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>}, {name = "k0", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    %0 = tpc.local_slice %k over ["dp"] dim 0 : !k -> !kd
    %1 = tpc.local_slice %0 over ["tp"] dim 1 : !kd -> !kt
    tpc.micro_batches of <b{dp, mb}> {
      %2 = tpc.local_slice %1 over ["mb"] dim 0 : !kt -> !km
      %3 = tpc.local_slice %n over ["dp", "mb"] dim 0 : !ids -> !mine
      %4 = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> tensor<?x?x4x8xf32, #tpc.dist<[b{dp, mb}, s, 4, 8], local>>
      %5 = tpc.local_slice %4 over ["tp"] dim 2 : tensor<?x?x4x8xf32, #tpc.dist<[b{dp, mb}, s, 4, 8], local>> -> !h
      %6:2 = func.call @layer(%5, %3, %2) : (!h, !mine, !km) -> (!h, !km)
      tpc.output 0, %6#0 : !h
      tpc.output 1, %6#1 : !km
    }
  }
}
}
