// The number of chunks with the lowest estimate. 128 rows have at most 4 chunks of 32 rows. The matmul
// takes 125 us (2 * 128 * 7168 * 4096 flops at 60 Tflop/s); a chunk takes at least 39 us, because it
// reads the weight. The all-reduce of 2 MiB over two ranks takes 15 us on the default link, 125 us at
// 20 GB/s, 4.2 ms at 0.5 GB/s. At 20 GB/s, three chunks save 17%. On the other links, no number of
// chunks saves 5%.

// RUN: tpc-opt %s --tpc-overlap-collectives=chunks=0 | FileCheck %s --check-prefix=NONE
// RUN: sed 's/links = {}/links = {intra_node = [1.0e-5 : f64, 5.0e-11 : f64]}/' %s \
// RUN:   | tpc-opt --tpc-overlap-collectives=chunks=0 | FileCheck %s --check-prefix=THREE
// RUN: sed 's/links = {}/links = {intra_node = [1.0e-5 : f64, 2.0e-9 : f64]}/' %s \
// RUN:   | tpc-opt --tpc-overlap-collectives=chunks=0 | FileCheck %s --check-prefix=NONE
// NONE-NOT: all_reduce_start
// NONE: tpc.all_reduce %
// NONE-NOT: all_reduce_start
// THREE: tpc.all_reduce_start %{{.*}} over ["tp"] chunks 3 grain 32 :

!x = tensor<?x4096xf32, #tpc.dist<[n, 4096], local>>
!h = tensor<?x7168xf32, #tpc.dist<[n, 14336{tp}], local>>
!part = tensor<?x4096xf32, #tpc.dist<[n, 4096], sum{tp}, local>>
!v = tensor<7168x4096xf32, #tpc.dist<[14336{tp}, 4096], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>, tpc.links = {}} {
tpc.weight @v in "/w.bin" at 256 : tensor<14336x4096xf32>
func.func private @layer(%h: !h) -> !x {
  %v = tpc.parameter @v : !v
  %0 = tpc.matmul %h, %v : !h, !v -> !part
  %1 = tpc.all_reduce %0 over ["tp"] : !part -> !x
  return %1 : !x
}
}
