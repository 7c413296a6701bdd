// RUN: tpc-opt %s --tpc-outline-kernels --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s

// Memory of values: shared slots, aliases, the caller's memory, and copies.
!n = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!m = tensor<?x16xf32, #tpc.dist<[n, 16], local>>
!p = tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>
!h = tensor<?x2x4xf32, #tpc.dist<[n, 2, 4], local>>
!u = tensor<8x8xf32>
!part = tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {

// A value takes the free slot of exactly its size. So %3 leaves the large slot to %4, and no slot
// grows.
// CHECK-LABEL: tpc_buffer.func @of_its_size_on_buffers
// CHECK: %[[F:.*]] = tpc_buffer.push "64*floordiv(4*_16*n + 63, 64) + 128*floordiv(4*_8*n + 63, 64)"
// CHECK: tpc_buffer.slot %[[F]] at 0 : "_16*n" x f32
// CHECK: tpc_buffer.slot %[[F]] at "64*floordiv(4*_16*n + 63, 64)" : "_8*n" x f32
// CHECK: tpc_buffer.launch
// CHECK: tpc_buffer.slot %[[F]] at "64*floordiv(4*_16*n + 63, 64)" : "_8*n" x f32
// CHECK: tpc_buffer.slot %[[F]] at 0 : "_16*n" x f32
// CHECK-NOT: tpc_buffer.slot
// CHECK: tpc_buffer.pop %[[F]]
func.func private @of_its_size(%x: !n, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>, %u: !u) -> (!n, !m, !n) {
  %0 = tpc.matmul %x, %w : !n, tensor<8x16xf32> -> !m
  %1 = tpc.matmul %x, %u : !n, !u -> !n
  %2 = tpc.matmul %0, %v : !m, tensor<16x8xf32> -> !n
  %a = tpc.add %1, %2 : !n, !n -> !n
  %3 = tpc.matmul %x, %u : !n, !u -> !n
  %4 = tpc.matmul %3, %w : !n, tensor<8x16xf32> -> !m
  %b = tpc.exp %4 : !m -> !m
  %c = tpc.exp %3 : !n -> !n
  return %a, %b, %c : !n, !m, !n
}

// A slot shared by values of several sizes has the maximum of their run-time sizes.
// CHECK-LABEL: tpc_buffer.func @grows_on_buffers
// CHECK: tpc_buffer.push "64*floordiv(4*_8*n + 63, 64) + 64*floordiv(max(4*_16*n, 4*_8*n) + 63, 64)"
// CHECK: tpc_buffer.slot %{{.*}} at 0 : "_8*n" x f32
// CHECK: tpc_buffer.slot %{{.*}} at "64*floordiv(max(4*_16*n, 4*_8*n) + 63, 64)" : "_8*n" x f32
// CHECK: tpc_buffer.slot %{{.*}} at 0 : "_16*n" x f32
func.func private @grows(%x: !n, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>, %u: !u) -> !n {
  %0 = tpc.matmul %x, %u : !n, !u -> !n
  %1 = tpc.matmul %0, %u : !n, !u -> !n
  %2 = tpc.matmul %1, %w : !n, tensor<8x16xf32> -> !m
  %3 = tpc.matmul %2, %v : !m, tensor<16x8xf32> -> !n
  return %3 : !n
}

// An all-reduce works in place if it is the last use of its operand.
// CHECK-LABEL: tpc_buffer.func @in_place_on_buffers
// CHECK: tpc_buffer.push "128*floordiv(4*_8*n + 63, 64)"
// CHECK: %[[X:.*]] = tpc_buffer.slot %{{.*}} at 0
// CHECK: %[[FIRST:.*]] = tpc_buffer.slot %{{.*}} at "64*floordiv(4*_8*n + 63, 64)"
// CHECK: tpc_buffer.all_reduce %[[X]] to %[[FIRST]]
// CHECK: %[[SECOND:.*]] = tpc_buffer.slot %{{.*}} at 0
// CHECK: tpc_buffer.all_reduce %[[X]] to %[[SECOND]]
func.func private @in_place(%x: !p, %y: !n) -> (!n, !n) {
  %0 = tpc.neg %x : !p -> !p
  %1 = tpc.all_reduce %0 over ["tp"] : !p -> !n
  %2 = tpc.all_reduce %0 over ["tp"] : !p -> !n
  %3 = tpc.mul %1, %y : !n, !n -> !n
  %4 = tpc.exp %2 : !n -> !n
  return %3, %4 : !n, !n
}

// It also works in place if the operand is an alias, but not if it is in the caller's memory.
// CHECK-LABEL: tpc_buffer.func @in_place_of_name_on_buffers
// CHECK: tpc_buffer.push "64*floordiv(max(4*_2*_4*n, 4*_8*n) + 63, 64)"
// CHECK: tpc_buffer.all_reduce
// CHECK-LABEL: tpc_buffer.func @of_argument_on_buffers
// CHECK: %[[TO:.*]] = tpc_buffer.slot
// CHECK: tpc_buffer.all_reduce %arg0 to %[[TO]]
func.func private @in_place_of_name(%x: !p, %y: !h) -> !h {
  %0 = tpc.neg %x : !p -> !p
  %1 = tpc.reshape %0 : !p -> tensor<?x2x4xf32, #tpc.dist<[n, 2, 4], sum{tp}, local>>
  %2 = tpc.all_reduce %1 over ["tp"] : tensor<?x2x4xf32, #tpc.dist<[n, 2, 4], sum{tp}, local>> -> !h
  %3 = tpc.mul %2, %y : !h, !h -> !h
  return %3 : !h
}
func.func private @of_argument(%x: !p, %y: !n) -> !n {
  %0 = tpc.all_reduce %x over ["tp"] : !p -> !n
  %1 = tpc.mul %0, %y : !n, !n -> !n
  return %1 : !n
}

// A reshape aliases its operand and extends its lifetime. If the reshape is a result, both are in
// the caller's memory.
// CHECK-LABEL: tpc_buffer.func @kept_alive_on_buffers
// CHECK: tpc_buffer.push "192*floordiv(4*_8*n + 63, 64)"
// CHECK: %[[NAMED:.*]] = tpc_buffer.slot %{{.*}} at 0
// CHECK: tpc_buffer.batch_product %arg0 by %arg1 to %[[NAMED]]
// CHECK: tpc_buffer.slot %{{.*}} at "64*floordiv(4*_8*n + 63, 64)"
// CHECK: %[[LAST:.*]] = tpc_buffer.slot %{{.*}} at "128*floordiv(4*_8*n + 63, 64)"
// CHECK: tpc_buffer.launch @{{.*}}(%[[LAST]], %[[NAMED]]) to (%arg2)
// CHECK-LABEL: tpc_buffer.func @named_result_on_buffers
// CHECK-NEXT: tpc_buffer.batch_product %arg0 by %arg1 to %arg2
// CHECK-NEXT: }
func.func private @kept_alive(%x: !n, %u: !u) -> !n {
  %0 = tpc.matmul %x, %u : !n, !u -> !n
  %1 = tpc.reshape %0 : !n -> !h
  %2 = tpc.matmul %x, %u : !n, !u -> !n
  %3 = tpc.reshape %1 : !h -> !n
  %4 = tpc.matmul %2, %u : !n, !u -> !n
  %5 = tpc.add %4, %3 : !n, !n -> !n
  return %5 : !n
}
func.func private @named_result(%x: !n, %u: !u) -> !h {
  %0 = tpc.matmul %x, %u : !n, !u -> !n
  %1 = tpc.reshape %0 : !n -> !h
  return %1 : !h
}

// A result whose value already has other memory is copied: a value that is returned twice, a slice,
// a constant, an alias of an argument.
// CHECK-LABEL: tpc_buffer.func @twice_on_buffers
// CHECK-NEXT: tpc_buffer.batch_product %arg0 by %arg1 to %arg2
// CHECK-NEXT: tpc_buffer.copy %arg2 to %arg3 bytes "4*_8*n"
// CHECK-LABEL: tpc_buffer.func @part_on_buffers
// CHECK: %[[WHOLE:.*]] = tpc_buffer.slot %{{.*}} at 0 : "_8*_8" x f32
// CHECK: %[[PART:.*]] = tpc_buffer.part %[[WHOLE]] from "_8*_8.tp*rank.tp" : "_8*_8.tp" x f32
// CHECK-NEXT: tpc_buffer.copy %[[PART]] to %arg1 bytes "4*_8*_8.tp"
// CHECK-LABEL: tpc_buffer.func @copies_on_buffers
// CHECK-DAG: %[[C:.*]] = tpc_buffer.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK-DAG: tpc_buffer.copy %[[C]] to %arg1 bytes "4*_2"
// CHECK-DAG: tpc_buffer.copy %arg0 to %arg2 bytes "4*_2*_4*n"
func.func private @twice(%x: !n, %u: !u) -> (!n, !n) {
  %0 = tpc.matmul %x, %u : !n, !u -> !n
  return %0, %0 : !n, !n
}
func.func private @part(%x: !u) -> !part {
  %0 = tpc.matmul %x, %x : !u, !u -> !u
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : !u -> !part
  return %1 : !part
}
func.func private @copies(%x: !n) -> (tensor<2xf32>, !h) {
  %c = tpc.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = tpc.reshape %x : !n -> !h
  return %c, %0 : tensor<2xf32>, !h
}

// An unused value has memory while it is written.
// CHECK-LABEL: tpc_buffer.func @unread_on_buffers
// CHECK: tpc_buffer.push "64*floordiv(4*_8*n + 63, 64)"
// CHECK: %[[T:.*]] = tpc_buffer.slot %{{.*}} at 0
// CHECK: tpc_buffer.all_reduce %arg0 to %[[T]]
// CHECK: tpc_buffer.slot %{{.*}} at 0
func.func private @unread(%x: !p, %y: !n, %u: !u) -> !n {
  %0 = tpc.all_reduce %x over ["tp"] : !p -> !n
  %1 = tpc.matmul %y, %u : !n, !u -> !n
  %2 = tpc.matmul %1, %u : !n, !u -> !n
  return %2 : !n
}

// A stage gets each input once, whatever its number of uses, and has a frame for each iteration.
// CHECK-LABEL: tpc_buffer.func @main_stage_0_on_buffers
// CHECK-COUNT-5: tpc_buffer.input
// CHECK-NOT: tpc_buffer.input
// CHECK: tpc_buffer.micro_batches 1 {
// CHECK-NEXT: tpc_buffer.push
tpc.pipeline @main(%x: !n, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>, %u: !u, %p: !p) inputs [{}, {}, {}, {}, {}] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      func.call @of_its_size(%x, %w, %v, %u) : (!n, tensor<8x16xf32>, tensor<16x8xf32>, !u) -> (!n, !m, !n)
      func.call @grows(%x, %w, %v, %u) : (!n, tensor<8x16xf32>, tensor<16x8xf32>, !u) -> !n
      func.call @in_place(%p, %x) : (!p, !n) -> (!n, !n)
      %h = func.call @named_result(%x, %u) : (!n, !u) -> !h
      func.call @in_place_of_name(%p, %h) : (!p, !h) -> !h
      func.call @of_argument(%p, %x) : (!p, !n) -> !n
      func.call @kept_alive(%x, %u) : (!n, !u) -> !n
      func.call @twice(%x, %u) : (!n, !u) -> (!n, !n)
      func.call @part(%u) : (!u) -> !part
      func.call @copies(%x) : (!n) -> (tensor<2xf32>, !h)
      func.call @unread(%p, %x, %u) : (!p, !n, !u) -> !n
    }
  }
}
}
