// RUN: tpc-opt %s --tpc-lower-kernels-to-nvvm --verify-diagnostics

module attributes {tpc.target = "cuda"} {
tpc.pipeline @main(%x: tensor<?x768xf32, #tpc.dist<[n, 768]>>) inputs [{tpc.name = "x"}] outputs [] {
  tpc.stage 0 {
  }
}
module @kernels {
// expected-error@+1 {{a dimension of 2147483648 elements is too long for GPUs, whose kernels have indices of 32 bits; split it over more ranks}}
tpc_kernel.func @long(%x: memref<?xf32> of [2147483648]) -> (%y: memref<?xf32> of [2147483648]) {
  tpc_kernel.rows (%i) in [2147483648] {
    tpc_kernel.elements () in [] {
      %v = memref.load %x[%i] : memref<?xf32>
      memref.store %v, %y[%i] : memref<?xf32>
    }
  }
}
}
}
