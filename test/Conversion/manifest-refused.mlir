// RUN: tpc-opt %s --split-input-file --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program --verify-diagnostics
// RUN: not tpc-opt %S/manifest.mlir --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=digest-weights=true -o /dev/null 2>&1 | FileCheck %s

// Views that no rank can load.
// CHECK: error: weight file '{{.*}}' cannot be read, but --digest-weights reads it

// Three blocks of four, each split over two ranks, but the view has four blocks of three.
!x = tensor<6xf32, #tpc.dist<[3 * 4{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
// expected-error@+1 {{is split over tp where its view has no such factor: 4 elements over factors of 3}}
tpc.weight @cut in "/w.bin" at 0 : tensor<24xf32>
func.func private @k(%x: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.neg %x : !x -> !x
  return %0 : !x
}
tpc.pipeline @main() inputs [] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      %b = tpc.parameter @cut view <0 [[4 x 6, 3 x 1]]> : !x
      func.call @k(%b) : (!x) -> !x
    }
  }
}
}

// -----

// Without a split, a view with other factors is valid.
!y = tensor<12xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @whole in "/w.bin" at 0 : tensor<24xf32>
func.func private @k(%x: !y) -> !y attributes {tpc.kernel = 1} {
  %0 = tpc.neg %x : !y -> !y
  return %0 : !y
}
tpc.pipeline @main() inputs [] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      %b = tpc.parameter @whole view <0 [[4 x 6, 3 x 1]]> : !y
      func.call @k(%b) : (!y) -> !y
    }
  }
}
}
