// RUN: tpc-opt %s --tpc-overlap-collectives=chunks=2 | FileCheck %s
// RUN: not tpc-opt %s --tpc-overlap-collectives=chunks=9 2>&1 | FileCheck %s --check-prefix=CHUNKS
// CHUNKS: error: cannot overlap with 9 chunks of at least 32 rows: there are 1 to 8 chunks

!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!h = tensor<?x3xf32, #tpc.dist<[n, 6{tp}], local>>
!part = tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>
!v = tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @v in "/w.bin" at 256 : tensor<6x8xf32>

// The start follows the matmul, the wait precedes the first use.
// CHECK-LABEL: @layer
// CHECK: %[[P:.*]] = tpc.matmul %arg0, %{{.*}}
// CHECK-NEXT: %[[S:.*]] = tpc.all_reduce_start %[[P]] over ["tp"] chunks 2 grain 32 :
// CHECK-NEXT: %[[R:.*]] = tpc.relu %arg1
// CHECK-NEXT: %[[W:.*]] = tpc.wait %[[S]]
// CHECK-NEXT: %[[A:.*]] = tpc.add %[[W]], %[[R]]
// CHECK-NEXT: %[[B:.*]] = tpc.add %[[W]], %[[A]]
func.func private @layer(%h: !h, %x: !x) -> !x {
  %v = tpc.parameter @v : !v
  %0 = tpc.matmul %h, %v : !h, !v -> !part
  %1 = tpc.relu %x : !x -> !x
  %2 = tpc.all_reduce %0 over ["tp"] : !part -> !x
  %3 = tpc.add %2, %1 : !x, !x -> !x
  %4 = tpc.add %2, %3 : !x, !x -> !x
  return %4 : !x
}

// The matmul has another use; the operand is no matmul.
// CHECK-LABEL: @left_alone
// CHECK-NOT: all_reduce_start
// CHECK: return
func.func private @left_alone(%h: !h) -> (!x, !x) {
  %v = tpc.parameter @v : !v
  %0 = tpc.matmul %h, %v : !h, !v -> !part
  %1 = tpc.all_reduce %0 over ["tp"] : !part -> !x
  %2 = tpc.add %0, %0 : !part, !part -> !part
  %3 = tpc.all_reduce %2 over ["tp"] : !part -> !x
  return %1, %3 : !x, !x
}
}
