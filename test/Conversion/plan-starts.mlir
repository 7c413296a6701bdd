// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | FileCheck %s
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | tpc-opt --tpc-verify-buffers -o /dev/null

!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!h = tensor<?x3xf32, #tpc.dist<[n, 6{tp}], local>>
!part = tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>
!v = tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @v in "/w.bin" at 256 : tensor<6x8xf32>

// Rows of the matmul are computed chunk by chunk, and reduced in place.
// CHECK-LABEL: tpc_buffer.func @chunks_on_buffers
// CHECK: %[[P:.*]] = tpc_buffer.slot %{{.*}} at 0 : "_8*n" x f32
// CHECK: %[[TO:.*]] = tpc_buffer.slot %{{.*}} at 0 : "_8*n" x f32
// CHECK: %[[P0:.*]] = tpc_buffer.part %[[P]] from 0 :
// CHECK: %[[X0:.*]] = tpc_buffer.part %arg0 from 0 :
// CHECK: tpc_buffer.product %[[X0]] m "min({{.*}})" k _6.tp by %{{.*}} to %[[P0]] n _8
// CHECK: %[[T0:.*]] = tpc_buffer.all_reduce_start %[[P0]] to %{{.*}} over ["tp"] sum count
// CHECK: tpc_buffer.product
// CHECK: %[[T1:.*]] = tpc_buffer.all_reduce_start
// CHECK-NEXT: tpc_buffer.wait %[[T0]]
// CHECK-NEXT: tpc_buffer.wait %[[T1]]
// CHECK-NEXT: tpc_buffer.launch @kernel_add(%[[TO]], %arg1)
func.func private @chunks(%h: !h, %x: !x) -> !x {
  %v = tpc.parameter @v : !v
  %0 = tpc.matmul %h, %v : !h, !v -> !part
  %1 = tpc.all_reduce_start %0 over ["tp"] chunks 2 grain 4 : !part -> !x
  %2 = tpc.wait %1 : !x
  %3 = tpc.add %2, %x : !x, !x -> !x
  return %3 : !x
}

// The operand stays in memory until the wait, so that the sum has its own slot.
// CHECK-LABEL: tpc_buffer.func @live_on_buffers
// CHECK: tpc_buffer.launch @{{.*}} to (%[[A:.*]]) rows
// CHECK: tpc_buffer.all_reduce_start %[[A]] to %arg1
// CHECK: tpc_buffer.wait
// CHECK-NOT: tpc_buffer.copy
func.func private @live(%x: !part) -> !x {
  %0 = tpc.add %x, %x : !part, !part -> !part
  %1 = tpc.all_reduce_start %0 over ["tp"] : !part -> !x
  %2 = tpc.wait %1 : !x
  return %2 : !x
}

tpc.pipeline @main(%x: !x, %p: !part, %h: !h) inputs [{tpc.name = "x"}, {tpc.name = "p"}, {tpc.name = "h"}] outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[n, 8]>>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @chunks(%h, %x) : (!h, !x) -> !x
      %1 = func.call @live(%p) : (!part) -> !x
      tpc.output 0, %0 : !x
    }
  }
}
}
