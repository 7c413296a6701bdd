// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | FileCheck %s
// The plan matches the program, also after printing and parsing.
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | tpc-opt --tpc-verify-buffers | FileCheck %s
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers --mlir-print-op-generic | tpc-opt --tpc-verify-buffers | FileCheck %s

!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!h = tensor<?x3xf32, #tpc.dist<[n, 6{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @w in "/w.bin" at 64 : tensor<8x6xf32>
tpc.weight @v in "/w.bin" at 256 : tensor<6x8xf32>

// Sizes are names. The sum reuses the matmul's memory, and the last value is in the caller's
// memory.
// CHECK-LABEL: tpc_buffer.func @layer_on_buffers of @layer(%arg0 = value 0 : "_8*n" x f32) to (%arg1 : "_8*n" x f32) {
// CHECK: %[[W:.*]] = tpc_buffer.parameter @parameter_0
// CHECK: %[[V:.*]] = tpc_buffer.parameter @parameter_1
// CHECK: %[[FRAME:.*]] = tpc_buffer.push "64*floordiv(4*_6.tp*n + 63, 64) + 64*floordiv(4*_8*n + 63, 64)"
// CHECK: %[[H:.*]] = tpc_buffer.slot %[[FRAME]] at 0 : "_6.tp*n" x f32
// CHECK: tpc_buffer.product %arg0 m n k _8 by %[[W]] epilogue relu to %[[H]] n _6.tp
// CHECK: %[[P:.*]] = tpc_buffer.slot %[[FRAME]] at "64*floordiv(4*_6.tp*n + 63, 64)" : "_8*n" x f32
// CHECK: tpc_buffer.product %[[H]] m n k _6.tp by %[[V]] to %[[P]] n _8
// CHECK: %[[SUM:.*]] = tpc_buffer.slot %[[FRAME]] at "64*floordiv(4*_6.tp*n + 63, 64)" : "_8*n" x f32
// CHECK: tpc_buffer.all_reduce %[[P]] to %[[SUM]] over ["tp"] sum count "_8*n"
// CHECK: tpc_buffer.launch @kernel_add(%[[SUM]], %arg0) to (%arg1) rows n
// CHECK: tpc_buffer.pop %[[FRAME]]
// CHECK: tpc_buffer.entry @parameter_0 stage 0 packed @w : tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>>
func.func private @layer(%x: !x) -> !x {
  %w = tpc.parameter @w : tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>>
  %v = tpc.parameter @v : tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
  %0 = tpc.matmul %x, %w : !x, tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>> -> !h
  %1 = tpc.relu %0 : !h -> !h
  %2 = tpc.matmul %1, %v : !h, tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>> -> tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>
  %3 = tpc.all_reduce %2 over ["tp"] : tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>> -> !x
  %4 = tpc.add %3, %x : !x, !x -> !x
  return %4 : !x
}

// A returned argument is copied to the result. A function that no stage calls is omitted.
// CHECK-LABEL: tpc_buffer.func @same_on_buffers
// CHECK-NEXT: tpc_buffer.copy %arg0 to %arg1 bytes "4*_8*n"
// CHECK-NEXT: }
// CHECK-NOT: @unused_on_buffers
func.func private @same(%x: !x) -> !x {
  return %x : !x
}
func.func private @unused(%x: !x) -> !x {
  return %x : !x
}

// CHECK-LABEL: tpc_buffer.func @main_stage_0_on_buffers of @main stage 0 {
// CHECK: %[[X:.*]] = tpc_buffer.input 0 : "_8*n" x f32
// CHECK: tpc_buffer.micro_batches 1 {
// CHECK: tpc_buffer.call @layer_on_buffers(%[[X]]) to (
// CHECK: tpc_buffer.output 0, %{{.*}} shape [n, _8] offset [0, 0] size [n, _8] first ["tp"]
tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[n, 8]>>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @layer(%x) : (!x) -> !x
      %1 = func.call @same(%0) : (!x) -> !x
      tpc.output 0, %1 : !x
    }
  }
}
}
