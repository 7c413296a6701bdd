// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | FileCheck %s
// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers | tpc-opt --tpc-verify-buffers -o /dev/null

// A rank's queries come after those of earlier ranks, and all queries after the past. Window and
// slopes have the same offset. A rank has the slopes of its heads.
!q = tensor<1x?x?x4xf32, #tpc.dist<[1, 7{dp}, 5{tp}, 4], local>>
!k = tensor<1x10x?x4xf32, #tpc.dist<[1, 10, 5{tp}, 4], local>>
!slopes = tensor<?xf32, #tpc.dist<[5{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
// CHECK-LABEL: tpc_buffer.func @stage_0_on_buffers
// CHECK: tpc_buffer.attention %arg0, %arg1, %arg1 slopes %arg2 at "[[AT:[^"]*]]" to %arg3
// CHECK-SAME: heads "floordiv(_5 - rank.tp + ranks.tp - 1, ranks.tp)" of _4
// CHECK-SAME: causal "[[AT]]" after "{{[^"]*}} - window.6{{[^"]*}}" scale
func.func private @stage_0(%q: !q, %k: !k, %slopes: !slopes) -> !q {
  %0 = tpc.attention causal %q, %k, %k slopes %slopes scale 1.0 offset 3 window 6 : !q, !k, !k slopes !slopes -> !q
  return %0 : !q
}
}
