// Norms over a split width are decomposed. The proof replaces the model's norms by their
// definition.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir --check-prefix=PROGRAM
// RUN: tpc-opt %t.mlir --tpc-verify-equivalence=reference=%s -o /dev/null
// PROGRAM: tpc.norms_decomposed
// PROGRAM: tpc.layer_norm
// PROGRAM-NOT: tpc.rms_norm

// Faults: another epsilon, another divisor, a sum instead of the mean square.
// RUN: sed 's/dense<9.99999974E-6>/dense<2.0E-6>/' %t.mlir | not tpc-opt --tpc-verify-equivalence=reference=%s -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/dense<1.250000e-01>/dense<2.500000e-01>/' %t.mlir | not tpc-opt --tpc-verify-equivalence=reference=%s -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/tpc.norms_decomposed, //' %t.mlir | not tpc-opt --tpc-verify-equivalence=reference=%s -o /dev/null 2>&1 | FileCheck %s
// CHECK: does not compute what the model computes
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @z in "w" at 0 : tensor<6xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>, %y: tensor<?x6xf32, #tpc.dist<[t, 6]>>)
    -> (tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xf32, #tpc.dist<[t, 6]>>) {
  %s = tpc.parameter @s : tensor<8xf32>
  %z = tpc.parameter @z : tensor<6xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %m = tpc.layer_norm %y, %z epsilon 1.0e-5 : tensor<?x6xf32, #tpc.dist<[t, 6]>>, tensor<6xf32> -> tensor<?x6xf32, #tpc.dist<[t, 6]>>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %p = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %a = tpc.gelu tanh %p : tensor<?x32xf32, #tpc.dist<[t, 32]>> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %a, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %q, %m : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xf32, #tpc.dist<[t, 6]>>
}
