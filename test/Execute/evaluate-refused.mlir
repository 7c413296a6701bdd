// RUN: tpc-opt %s --tpc-evaluate=shape=s=9 --verify-diagnostics --split-input-file

tpc.weight @p in "w" at 0 : tensor<8x4xf32>
func.func @main(%x: tensor<?x4xf32, #tpc.dist<[s, 4]>>) -> tensor<?x4xf32, #tpc.dist<[s, 4]>> {
  %p = tpc.parameter @p : tensor<8x4xf32>
  // expected-error @below {{takes elements 0 to 8 of 8: these sizes are not possible}}
  %q = tpc.slice %p dim 0 from "0" : tensor<8x4xf32> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  return %q : tensor<?x4xf32, #tpc.dist<[s, 4]>>
}

// -----

// expected-error @below {{there is no function @main to evaluate}}
module {
}
