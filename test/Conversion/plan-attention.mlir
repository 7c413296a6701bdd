// RUN: tpc-opt %s --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s

// Attention has this rank's sizes. Broadcast masks and biases have strides of 0.
!q = tensor<?x?x3x4xf32, #tpc.dist<[b, s, 2{tp} * 3, 4], local>>
!k = tensor<?x?x1x4xf32, #tpc.dist<[b, t, 2{tp}, 4], local>>
!v = tensor<?x?x1x5xf32, #tpc.dist<[b, t, 2{tp}, 5], local>>
!y = tensor<?x?x3x5xf32, #tpc.dist<[b, s, 2{tp} * 3, 5], local>>
!keys = tensor<?x?xi1, #tpc.dist<[b, t], local>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, t], local>>
!bias = tensor<?x3x?x?xf32, #tpc.dist<[b, 2{tp} * 3, s, t], local>>
!part = tensor<?x?x6x4xf32, #tpc.dist<[b, s{tp}, 6, 4], local>>
!whole = tensor<?x?x6x4xf32, #tpc.dist<[b, t, 6, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {

// This rank's kv head has three query heads. The token stride is the number of elements of a token
// on this rank.
// CHECK-LABEL: tpc_buffer.func @everything_on_buffers
// CHECK: tpc_buffer.attention %arg0, %arg1, %arg2 key_mask %arg3 mask %arg4 strides [0, 0] bias %arg5 strides ["_2.tp*_3*s*t", "s*t"] to %arg6
// CHECK-SAME: batch b queries s keys t heads "_2.tp*_3" of _4 kv_heads _2.tp of _5
// CHECK-SAME: strides ["_2.tp*_3*_4", "_2.tp*_4", "_2.tp*_5", "_2.tp*_3*_5"]
// CHECK-SAME: causal "-s + t"
// CHECK-SAME: scale 5.000000e-01 softcap 3.000000e+01 uniform_rows
func.func private @everything(%q: !q, %k: !k, %v: !v, %keys: !keys, %mask: !mask, %bias: !bias) -> !y {
  %0 = tpc.attention causal %q, %k, %v key_mask %keys mask %mask bias %bias scale 0.5 offset "t - s" {softcap = 30.0 : f64, masked_row = 1 : i32} : !q, !k, !v key_mask !keys mask !mask bias !bias -> !y
  return %0 : !y
}

// A rank's queries follow those of earlier ranks. The offset is their number, so more keys are
// visible.
// CHECK-LABEL: tpc_buffer.func @later_on_buffers
// CHECK: tpc_buffer.attention %arg0, %arg1, %arg1 to %arg2
// CHECK-SAME: queries "floordiv(-rank.tp + ranks.tp + s - 1, ranks.tp)" keys t
// CHECK-SAME: causal "floordiv(s, ranks.tp)*rank.tp + min(mod(s, ranks.tp), rank.tp)"
func.func private @later(%q: !part, %k: !whole) -> !part {
  %0 = tpc.attention causal %q, %k, %k scale 0.5 : !part, !whole, !whole -> !part
  return %0 : !part
}

// If all keys are visible, the call has no offsets and no masks.
// CHECK-LABEL: tpc_buffer.func @plain_on_buffers
// CHECK: tpc_buffer.attention %arg0, %arg1, %arg1 to %arg2
// CHECK-NOT: causal
// CHECK-NOT: mask
// CHECK-NOT: uniform_rows
// CHECK: tpc_buffer.func
func.func private @plain(%q: !part, %k: !whole) -> !part {
  %0 = tpc.attention %q, %k, %k scale 0.5 : !part, !whole, !whole -> !part
  return %0 : !part
}
tpc.pipeline @main(%q: !q, %k: !k, %v: !v, %keys: !keys, %mask: !mask, %bias: !bias, %p: !part, %a: !whole) inputs [{}, {}, {}, {}, {}, {}, {}, {}] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      func.call @everything(%q, %k, %v, %keys, %mask, %bias) : (!q, !k, !v, !keys, !mask, !bias) -> !y
      func.call @later(%p, %a) : (!part, !whole) -> !part
      func.call @plain(%p, %a) : (!part, !whole) -> !part
    }
  }
}
}
