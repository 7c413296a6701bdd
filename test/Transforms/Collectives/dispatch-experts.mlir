// RUN: tpc-opt %s --tpc-dispatch-experts=form=all-to-all | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: tpc-opt %s --tpc-dispatch-experts=form=gather | FileCheck %s --check-prefixes=CHECK,GATHER
// By estimate: a dispatch and a combine send fewer bytes, unless the time of their own is too long.
// RUN: tpc-opt %s --tpc-dispatch-experts | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: tpc-opt %s "--tpc-dispatch-experts=seconds=1" | FileCheck %s --check-prefixes=CHECK,GATHER
// RUN: not tpc-opt %s --tpc-dispatch-experts=form=some 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: 'some' is not auto, gather or all-to-all

!own = tensor<8192x264xf32, #tpc.dist<[65536{dp}, 264], local>>
!rows = tensor<65536x264xf32>
!x = tensor<65536x256xf32>
!routing = tensor<65536x8xf32>
!up = tensor<1x8x256xf32, #tpc.dist<[8{dp}, 8, 256], local>>
!down = tensor<1x256x8xf32, #tpc.dist<[8{dp}, 256, 8], local>>
!part = tensor<65536x256xf32, #tpc.dist<[65536, 256], sum{dp}, local>>
!result = tensor<8192x256xf32, #tpc.dist<[65536{dp}, 256], local>>

module attributes {tpc.mesh = #tpc.mesh<dp = 8, pp = 1, mb = 1>} {

// CHECK-LABEL: @experts
// ALL: %[[R:.*]] = tpc.dispatch %arg0 over ["dp"] from 256 experts
// ALL: tpc.slice %[[R]] dim 1 from 0
// ALL: tpc.slice %[[R]] dim 1 from 256
// ALL: %[[Y:.*]] = tpc.moe relu
// ALL: tpc.combine %[[Y]] over ["dp"] experts
// ALL-NOT: tpc.all_gather
// ALL-NOT: tpc.reduce_scatter
// GATHER: tpc.all_gather
// GATHER: tpc.reduce_scatter
// GATHER-NOT: tpc.dispatch
func.func @experts(%own: !own, %up: !up, %down: !down) -> !result {
  %0 = tpc.all_gather %own over ["dp"] dim 0 : !own -> !rows
  %x = tpc.slice %0 dim 1 from 0 : !rows -> !x
  %r = tpc.slice %0 dim 1 from 256 : !rows -> !routing
  %1 = tpc.moe relu %x, %r, %up, %down top_k 1 : !x, !routing, !up, !down -> !part
  %2 = tpc.reduce_scatter %1 over ["dp"] dim 0 : !part -> !result
  return %2 : !result
}

// The gathered tokens have another use.
// CHECK-LABEL: @used_twice
// CHECK: tpc.all_gather
// CHECK-NOT: tpc.dispatch
// CHECK: tpc.reduce_scatter
func.func @used_twice(%own: !own, %up: !up, %down: !down) -> (!result, !rows) {
  %0 = tpc.all_gather %own over ["dp"] dim 0 : !own -> !rows
  %x = tpc.slice %0 dim 1 from 0 : !rows -> !x
  %r = tpc.slice %0 dim 1 from 256 : !rows -> !routing
  %1 = tpc.moe relu %x, %r, %up, %down top_k 1 : !x, !routing, !up, !down -> !part
  %2 = tpc.reduce_scatter %1 over ["dp"] dim 0 : !part -> !result
  return %2, %0 : !result, !rows
}
}
