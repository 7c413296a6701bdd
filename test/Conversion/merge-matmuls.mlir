// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-merge-matmuls | FileCheck %s
// Merged matmuls become one call. Its buffers correspond to the program on tensors.
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-merge-matmuls --tpc-outline-kernels --tpc-plan-buffers \
// RUN:   | tpc-opt --tpc-verify-buffers | FileCheck %s --check-prefix=BUFFERS

!x = tensor<4x8xf32>
!q = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!w = tensor<8x?xf32, #tpc.dist<[8, 5{tp}], local>>
!s = tensor<4x?xf32, #tpc.dist<[4, 3{tp}], local>>
!v = tensor<8x?xf32, #tpc.dist<[8, 3{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @wq in "/w.bin" at 0 : tensor<8x5xf32>
tpc.weight @wk in "/w.bin" at 256 : tensor<5x8xf32>
tpc.weight @wv in "/w.bin" at 512 : tensor<8x3xf32>
tpc.weight @bk in "/w.bin" at 1024 : tensor<5xf32>
tpc.weight @square in "/w.bin" at 2048 : tensor<8x8xf32>
tpc.weight @other in "/w.bin" at 4096 : tensor<8x8xf32>

// Matmuls are merged whatever their widths, which also differ between ranks, and whatever their
// parameters' types and their epilogues. A matmul without a partner is not merged.
// CHECK-LABEL: func.func private @widths
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul
// CHECK-NOT: tpc.merged
// BUFFERS-LABEL: tpc_buffer.func @widths_on_buffers
// BUFFERS-DAG: %[[Q:.*]] = tpc_buffer.parameter @parameter_0
// BUFFERS-DAG: %[[K:.*]] = tpc_buffer.parameter @parameter_1
// BUFFERS-DAG: %[[V:.*]] = tpc_buffer.parameter @parameter_3
// BUFFERS: tpc_buffer.product %arg0 m _4 k _8 by %[[Q]] epilogue silu to %[[A:.*]] n "floordiv(_5 - rank.tp{{.*}}",
// BUFFERS-NEXT: by %[[K]] bias %{{.*}} to %[[B:.*]] n "floordiv(_5 - rank.tp{{.*}}"
// BUFFERS: tpc_buffer.product %arg0 m _4 k _8 by %[[V]] to %{{.*}} n "floordiv(_3 - rank.tp{{.*}}"
// BUFFERS: tpc_buffer.launch @kernel_mul(%[[A]], %[[B]])
func.func private @widths(%x: !x) -> (!q, !s) {
  %wq = tpc.parameter @wq : !w
  %wk = tpc.parameter @wk view <0 [[8 x 1], [5 x 8]]> : !w
  %wv = tpc.parameter @wv : !v
  %bk = tpc.parameter @bk : tensor<?xf32, #tpc.dist<[5{tp}], local>>
  %q = tpc.matmul %x, %wq : !x, !w -> !q
  %silu = tpc.silu %q : !q -> !q
  %k = tpc.matmul %x, %wk bias %bk : !x, !w bias tensor<?xf32, #tpc.dist<[5{tp}], local>> -> !q
  %v = tpc.matmul %x, %wv : !x, !v -> !s
  %r = tpc.mul %silu, %k : !q, !q -> !q
  return %r, %v : !q, !s
}

// Four matmuls of one operand are two groups. The results of the first two are used before the
// other two matmuls.
// CHECK-LABEL: func.func private @groups
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul
// CHECK-NOT: tpc.merged
// CHECK: tpc.matmul {{.*}} {tpc.merged = 1 : i64}
// CHECK: tpc.matmul {{.*}} {tpc.merged = 1 : i64}
func.func private @groups(%x: !x) -> !x {
  %w = tpc.parameter @square : tensor<8x8xf32>
  %v = tpc.parameter @other : tensor<8x8xf32>
  %a = tpc.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %b = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x
  %ab = tpc.mul %a, %b : !x, !x -> !x
  %down = tpc.matmul %ab, %w : !x, tensor<8x8xf32> -> !x
  %c = tpc.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %d = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x
  %cd = tpc.mul %c, %d : !x, !x -> !x
  %sum = tpc.mul %cd, %down : !x, !x -> !x
  return %sum : !x
}

// Not merged: the second matmul adds a value computed from the first.
// CHECK-LABEL: func.func private @dependent
// CHECK-NOT: tpc.merged
func.func private @dependent(%x: !x) -> !x {
  %w = tpc.parameter @square : tensor<8x8xf32>
  %v = tpc.parameter @other : tensor<8x8xf32>
  %a = tpc.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %e = tpc.exp %a : !x -> !x
  %b = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x
  %r = tpc.add %b, %e : !x, !x -> !x
  return %r : !x
}

// Not merged: two left operands, and a right operand that is computed.
// CHECK-LABEL: func.func private @others
// CHECK-NOT: tpc.merged
func.func private @others(%x: !x, %y: !x, %z: tensor<8x8xf32>) -> !x {
  %w = tpc.parameter @square : tensor<8x8xf32>
  %a = tpc.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %b = tpc.matmul %y, %w : !x, tensor<8x8xf32> -> !x
  %c = tpc.matmul %x, %z : !x, tensor<8x8xf32> -> !x
  %ab = tpc.mul %a, %b : !x, !x -> !x
  %r = tpc.mul %ab, %c : !x, !x -> !x
  return %r : !x
}

// CHECK-LABEL: func.func private @residual
// A residual is read while the results of all merged matmuls are written. So another result must
// not use its memory, although the residual is dead afterwards.
// BUFFERS-LABEL: tpc_buffer.func @residual_on_buffers
// BUFFERS: %[[E:.*]] = tpc_buffer.slot %{{.*}} at [[AT:.*]] : "_4*_8" x f32
// BUFFERS: tpc_buffer.launch @kernel_exp(%arg0) to (%[[E]])
// BUFFERS-NOT: tpc_buffer.slot %{{.*}} at [[AT]] :
// BUFFERS: by %{{.*}} residual %[[E]] to
func.func private @residual(%x: !x) -> !x {
  %w = tpc.parameter @square : tensor<8x8xf32>
  %v = tpc.parameter @other : tensor<8x8xf32>
  %e = tpc.exp %x : !x -> !x
  %a = tpc.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %s = tpc.add %a, %e : !x, !x -> !x
  %b = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x
  %r = tpc.mul %s, %b : !x, !x -> !x
  %t = tpc.mul %r, %b : !x, !x -> !x
  return %t : !x
}
}
