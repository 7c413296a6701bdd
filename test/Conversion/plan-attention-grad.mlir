// Gradients of attention that differ only in the number of the operand are one call.
// RUN: tpc-opt %s --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s

!q = tensor<?x?x3x4xf32, #tpc.dist<[b, s, 2{tp} * 3, 4], local>>
!k = tensor<?x?x1x4xf32, #tpc.dist<[b, t, 2{tp}, 4], local>>
!v = tensor<?x?x1x5xf32, #tpc.dist<[b, t, 2{tp}, 5], local>>
!d = tensor<?x?x3x5xf32, #tpc.dist<[b, s, 2{tp} * 3, 5], local>>
!keys = tensor<?x?xi1, #tpc.dist<[b, t], local>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, t], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {

// CHECK-LABEL: tpc_buffer.func @merged_on_buffers
// CHECK: tpc_buffer.attention_grad %arg0, %arg1, %arg2, %arg3 key_mask %arg4 mask %arg5 strides [0, 0] to %arg6, %arg7, %arg8 of [0, 1, 2]
// CHECK-SAME: batch b queries s keys t heads "_2.tp*_3" size _4 kv_heads _2.tp size _5
// CHECK-SAME: strides ["_2.tp*_3*_4", "_2.tp*_4", "_2.tp*_5"]
// CHECK-SAME: causal "-s + t"
// CHECK-SAME: scale 5.000000e-01 softcap 3.000000e+01 uniform_rows
// CHECK-NOT: attention_grad
func.func private @merged(%q: !q, %k: !k, %v: !v, %d: !d, %keys: !keys, %mask: !mask) -> (!q, !k, !v) {
  %0 = tpc.attention_grad 0 causal %q, %k, %v, %d key_mask %keys mask %mask scale 0.5 offset "t - s" uniform_rows {softcap = 30.0 : f64} : !q, !k, !v, !d key_mask !keys mask !mask -> !q
  %1 = tpc.attention_grad 1 causal %q, %k, %v, %d key_mask %keys mask %mask scale 0.5 offset "t - s" uniform_rows {softcap = 30.0 : f64} : !q, !k, !v, !d key_mask !keys mask !mask -> !k
  %2 = tpc.attention_grad 2 causal %q, %k, %v, %d key_mask %keys mask %mask scale 0.5 offset "t - s" uniform_rows {softcap = 30.0 : f64} : !q, !k, !v, !d key_mask !keys mask !mask -> !v
  return %0, %1, %2 : !q, !k, !v
}

// Different scales are different calls.
// CHECK-LABEL: tpc_buffer.func @apart_on_buffers
// CHECK: tpc_buffer.attention_grad {{.*}} to %arg4 of [1] {{.*}} scale 5.000000e-01
// CHECK: tpc_buffer.attention_grad {{.*}} to %arg5 of [2] {{.*}} scale 2.500000e-01
func.func private @apart(%q: !q, %k: !k, %v: !v, %d: !d) -> (!k, !v) {
  %0 = tpc.attention_grad 1 %q, %k, %v, %d scale 0.5 : !q, !k, !v, !d -> !k
  %1 = tpc.attention_grad 2 %q, %k, %v, %d scale 0.25 : !q, !k, !v, !d -> !v
  return %0, %1 : !k, !v
}
tpc.pipeline @main(%q: !q, %k: !k, %v: !v, %d: !d, %keys: !keys, %mask: !mask) inputs [{}, {}, {}, {}, {}, {}] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      func.call @merged(%q, %k, %v, %d, %keys, %mask) : (!q, !k, !v, !d, !keys, !mask) -> (!q, !k, !v)
      func.call @apart(%q, %k, %v, %d) : (!q, !k, !v, !d) -> (!k, !v)
    }
  }
}
}
