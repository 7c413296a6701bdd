// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-merge-matmuls | FileCheck %s
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-merge-matmuls --tpc-alias-caches --tpc-outline-kernels --tpc-build-kernels \
// RUN:   --tpc-plan-buffers | tpc-opt --tpc-verify-buffers | FileCheck %s --check-prefix=BUFFERS

// GPUs: merged results are columns of one buffer.

!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!q = tensor<?x?xf32, #tpc.dist<[n, 5{tp}], local>>
!w = tensor<8x?xf32, #tpc.dist<[8, 5{tp}], local>>
!b = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!square = tensor<8x8xf32>
!vector = tensor<8xf32>
!rows = tensor<?x?x8xf32, #tpc.dist<[b, s, 8], local>>
!heads = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4], local>>
!fresh = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4], local>>
!cache = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4], local>>
!lengths = tensor<?xi64, #tpc.dist<[b], local>>
!part = tensor<?x4xf32, #tpc.dist<[n, 8{tp}], local>>
!columns = tensor<8x4xf32, #tpc.dist<[8, 8{tp}], local>>
!halves = tensor<?x4xf32, #tpc.dist<["2*n", 4], local>>
!whole = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
!wholeHeads = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>, tpc.target = "cuda"} {
tpc.cache @k0 : !whole
tpc.weight @wq in "/w.bin" at 0 : tensor<8x5xf32>
tpc.weight @wk in "/w.bin" at 256 : tensor<5x8xf32>
tpc.weight @bq in "/w.bin" at 512 : tensor<5xf32>
tpc.weight @bk in "/w.bin" at 768 : tensor<5xf32>
tpc.weight @w0 in "/w.bin" at 1024 : tensor<8x8xf32>
tpc.weight @w1 in "/w.bin" at 2048 : tensor<8x8xf32>
tpc.weight @w2 in "/w.bin" at 3072 : tensor<8x8xf32>
tpc.weight @w3 in "/w.bin" at 4096 : tensor<8x8xf32>
tpc.weight @w4 in "/w.bin" at 5120 : tensor<8x8xf32>
tpc.weight @w5 in "/w.bin" at 6144 : tensor<8x8xf32>
tpc.weight @vector in "/w.bin" at 8192 : tensor<8xf32>

// Widths that differ from rank to rank; biases stay in the matmuls. The kernel reads rows
// that are not contiguous.
// CHECK-LABEL: func.func private @gate
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// BUFFERS-LABEL: func.func private @kernel_silu_mul
// BUFFERS-SAME: {tpc.row_stride = [1, #tpc.expr<"[[N:2[*]floordiv[^"]*]]">]}
// BUFFERS-SAME: {tpc.row_stride = [1, #tpc.expr<"[[N]]">]}
// BUFFERS-LABEL: tpc_buffer.func @gate_on_buffers
// BUFFERS: %[[W:.*]] = tpc_buffer.slot %{{.*}} at 0 : "2*floordiv({{.*}})*n" x f32
// BUFFERS: %[[Q:.*]] = tpc_buffer.columns %[[W]] from 0 n "floordiv({{.*}})" of "[[N]]" : "floordiv({{.*}})*n" x f32
// BUFFERS: %[[K:.*]] = tpc_buffer.columns %[[W]] from "floordiv({{.*}})" n "floordiv({{.*}})" of "[[N]]" : "floordiv({{.*}})*n" x f32
// BUFFERS: tpc_buffer.product %arg0 m n k _8 by %{{.*}} bias %{{.*}} to %[[Q]] n "floordiv({{.*}})",
// BUFFERS-NEXT: by %{{.*}} bias %{{.*}} to %[[K]] n "floordiv({{.*}})"
// BUFFERS: tpc_buffer.launch @kernel_silu_mul(%[[Q]], %[[K]])
func.func private @gate(%x: !x) -> !q {
  %wq = tpc.parameter @wq : !w
  %wk = tpc.parameter @wk view <0 [[8 x 1], [5 x 8]]> : !w
  %bq = tpc.parameter @bq : !b
  %bk = tpc.parameter @bk : !b
  %q = tpc.matmul %x, %wq : !x, !w -> !q
  %qb = tpc.add %q, %bq : !q, !b -> !q
  %silu = tpc.silu %qb : !q -> !q
  %k = tpc.matmul %x, %wk bias %bk : !x, !w bias !b -> !q
  %r = tpc.mul %silu, %k : !q, !q -> !q
  return %r : !q
}

// Attention reads by strides, and so does a kernel that appends to a cache.
// CHECK-LABEL: func.func private @attention
// CHECK-COUNT-3: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// BUFFERS-LABEL: tpc_buffer.func @attention_on_buffers
// BUFFERS: tpc_buffer.columns %{{.*}} from 0 n _8 of "3*_8" : "_8*b*s" x f32
// BUFFERS: tpc_buffer.columns %{{.*}} from _8 n _8 of "3*_8" : "_8*b*s" x f32
// BUFFERS: tpc_buffer.columns %{{.*}} from "2*_8" n _8 of "3*_8" : "_8*b*s" x f32
// BUFFERS: tpc_buffer.launch @kernel_transpose_append(
// BUFFERS: tpc_buffer.attention {{.*}} strides ["3*_8", "3*_8", "3*_8", "_2*_4"] scale
func.func private @attention(%x: !rows, %cache: !cache, %lengths: !lengths) -> (!heads, !cache) {
  %w0 = tpc.parameter @w0 : !square
  %w1 = tpc.parameter @w1 : !square
  %w2 = tpc.parameter @w2 : !square
  %q = tpc.matmul %x, %w0 : !rows, !square -> !rows
  %k = tpc.matmul %x, %w1 : !rows, !square -> !rows
  %v = tpc.matmul %x, %w2 : !rows, !square -> !rows
  %qh = tpc.reshape %q : !rows -> !heads
  %kh = tpc.reshape %k : !rows -> !heads
  %vh = tpc.reshape %v : !rows -> !heads
  %fresh = tpc.transpose %vh [0, 2, 1, 3] : !heads -> !fresh
  %new = tpc.append %cache, %fresh at %lengths : !cache, !fresh, !lengths -> !cache
  %y = tpc.attention %qh, %kh, %vh scale 0.5 : !heads, !heads, !heads -> !heads
  return %y, %new : !heads, !cache
}

// Not merged, because these values must be dense: a result, the operand of a matmul or of a
// collective, a sum with a residual, and a value that is reshaped.
// CHECK-LABEL: func.func private @dense
// CHECK-NOT: tpc.merged
func.func private @dense(%x: !x, %e: !x) -> (!x, !x, !x, !x, !halves) {
  %w0 = tpc.parameter @w0 view <0 [[8 x 1], [8 x 8]]> : !square
  %w1 = tpc.parameter @w1 view <0 [[8 x 1], [8 x 8]]> : !square
  %w2 = tpc.parameter @w2 view <0 [[8 x 1], [8 x 8]]> : !columns
  %w3 = tpc.parameter @w3 view <0 [[8 x 1], [8 x 8]]> : !square
  %w4 = tpc.parameter @w4 view <0 [[8 x 1], [8 x 8]]> : !square
  %w5 = tpc.parameter @w5 view <0 [[8 x 1], [8 x 8]]> : !square
  %a = tpc.matmul %x, %w0 : !x, !square -> !x
  %b = tpc.matmul %x, %w1 : !x, !square -> !x
  %c = tpc.matmul %x, %w2 : !x, !columns -> !part
  %d = tpc.matmul %x, %w3 : !x, !square -> !x
  %h = tpc.matmul %x, %w4 : !x, !square -> !x
  %ab = tpc.mul %a, %b : !x, !x -> !x
  %down = tpc.matmul %b, %w5 : !x, !square -> !x
  %sum = tpc.all_gather %c over ["tp"] dim 1 : !part -> !x
  %res = tpc.add %d, %e : !x, !x -> !x
  %halves = tpc.reshape %h : !x -> !halves
  %eh = tpc.exp %halves : !halves -> !halves
  %all = tpc.mul %ab, %res : !x, !x -> !x
  %more = tpc.mul %all, %down : !x, !x -> !x
  %some = tpc.mul %more, %sum : !x, !x -> !x
  return %a, %some, %sum, %res, %eh : !x, !x, !x, !x, !halves
}

// Matmuls with and without a bias are merged separately.
// CHECK-LABEL: func.func private @biases
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
// CHECK: tpc.matmul
// CHECK-NOT: tpc.merged
// CHECK: tpc.matmul {{.*}} {tpc.merged = 0 : i64}
func.func private @biases(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 view <0 [[8 x 2], [8 x 4]]> : !square
  %w1 = tpc.parameter @w1 view <0 [[8 x 2], [8 x 4]]> : !square
  %w2 = tpc.parameter @w2 view <0 [[8 x 2], [8 x 4]]> : !square
  %vector = tpc.parameter @vector : !vector
  %a = tpc.matmul %x, %w0 : !x, !square -> !x
  %b = tpc.matmul %x, %w1 bias %vector : !x, !square bias !vector -> !x
  %c = tpc.matmul %x, %w2 : !x, !square -> !x
  %ab = tpc.mul %a, %b : !x, !x -> !x
  %abc = tpc.mul %ab, %c : !x, !x -> !x
  return %abc : !x
}

// A parameter with another use stays a matrix of its own.
// CHECK-LABEL: func.func private @shared
// CHECK-NOT: tpc.merged
func.func private @shared(%x: !x, %y: !x) -> (!x, !x) {
  %w3 = tpc.parameter @w3 : !square
  %w4 = tpc.parameter @w4 : !square
  %a = tpc.matmul %x, %w3 : !x, !square -> !x
  %b = tpc.matmul %x, %w4 : !x, !square -> !x
  %ab = tpc.mul %a, %b : !x, !x -> !x
  %c = tpc.matmul %y, %w4 : !x, !square -> !x
  return %ab, %c : !x, !x
}
tpc.pipeline @main(%x: !x, %r: !rows, %n: !lengths, %c: !cache) inputs [{}, {}, {}, {tpc.cache = @k0}]
    outputs [{name = "y", type = !wholeHeads}, {name = "k1", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    tpc.micro_batches {
      func.call @gate(%x) : (!x) -> !q
      %0:2 = func.call @attention(%r, %c, %n) : (!rows, !cache, !lengths) -> (!heads, !cache)
      tpc.output 0, %0#0 : !heads
      tpc.output 1, %0#1 : !cache
    }
  }
}
}
