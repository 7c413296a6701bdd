// Sizes are reduced for the randomized check. If dimensions are concatenated and sliced again,
// reduced sizes must still add up, also with symbols: 12 * s = 8 * s + 4 * s.
// RUN: tpc-opt %s "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null 2>&1 | FileCheck %s --allow-empty
// CHECK-NOT: {{error|warning}}
!x = tensor<?x8xf32, #tpc.dist<[s, 8]>>
!y = tensor<?x4xf32, #tpc.dist<[s, 4]>>
!flat_x = tensor<?xf32, #tpc.dist<[8*s]>>
!flat_y = tensor<?xf32, #tpc.dist<[4*s]>>
!flat = tensor<?xf32, #tpc.dist<[12*s]>>
module {
  func.func @main(%x: !x, %y: !y) -> (!x, !y) {
    %0 = tpc.reshape %x : !x -> !flat_x
    %1 = tpc.reshape %y : !y -> !flat_y
    %2 = tpc.concat %0, %1 dim 0 : !flat_x, !flat_y -> !flat
    %3 = tpc.slice %2 dim 0 from 0 : !flat -> !flat_x
    %4 = tpc.slice %2 dim 0 from "8*s" : !flat -> !flat_y
    %5 = tpc.reshape %3 : !flat_x -> !x
    %6 = tpc.reshape %4 : !flat_y -> !y
    return %5, %6 : !x, !y
  }
}
