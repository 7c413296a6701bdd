// Values computed before the micro-batch loop are counted once: cos and sin of eight numbers. They
// are live in all iterations.
// RUN: tpc-opt %s --tpc-print-report=shape=b=4,s=8 -o /dev/null | FileCheck %s
// CHECK: 0: 0 layers, weights 0 B per rank, 64 B live during 2 micro-batches
// CHECK: stage 0, tp: 1 x all_gather

!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
