// Norms of f32 values with 16-bit parameters and results are computed in f32, then rounded. One of
// them is decomposed.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir --check-prefix=PROGRAM
// RUN: tpc-opt %t.mlir --tpc-verify-equivalence=reference=%s -o /dev/null
// PROGRAM: tpc.norms_decomposed
// PROGRAM: tpc.layer_norm %{{.*}} -> tensor<?x6xbf16
// PROGRAM-NOT: tpc.rms_norm
// PROGRAM: tpc.rsqrt {{.*}} -> tensor<?x1xf32
// PROGRAM: %[[S:.*]] = tpc.cast %{{.*}}bf16{{.*}}f32
// PROGRAM: %[[Y:.*]] = tpc.mul %{{.*}}, %[[S]]
// PROGRAM: tpc.cast %[[Y]] {{.*}}f32{{.*}} -> {{.*}}bf16
// PROGRAM: tpc.all_gather {{.*}}bf16

// A norm has the parameter of another norm.
// RUN: sed 's/dense<9.99999974E-6>/dense<2.0E-6>/' %t.mlir | not tpc-opt --tpc-verify-equivalence=reference=%s -o /dev/null 2>&1 | FileCheck %s
// CHECK: does not compute what the model computes
tpc.weight @s in "w" at 0 : tensor<8xbf16>
tpc.weight @z in "w" at 0 : tensor<6xbf16>
tpc.weight @u in "w" at 0 : tensor<8x32xbf16>
tpc.weight @d in "w" at 0 : tensor<32x8xbf16>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>, %y: tensor<?x6xf32, #tpc.dist<[t, 6]>>)
    -> (tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xbf16, #tpc.dist<[t, 6]>>) {
  %s = tpc.parameter @s : tensor<8xbf16>
  %z = tpc.parameter @z : tensor<6xbf16>
  %u = tpc.parameter @u : tensor<8x32xbf16>
  %d = tpc.parameter @d : tensor<32x8xbf16>
  %m = tpc.layer_norm %y, %z epsilon 1.0e-5 : tensor<?x6xf32, #tpc.dist<[t, 6]>>, tensor<6xbf16> -> tensor<?x6xbf16, #tpc.dist<[t, 6]>>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xbf16> -> tensor<?x8xbf16, #tpc.dist<[t, 8]>>
  %p = tpc.matmul %n, %u : tensor<?x8xbf16, #tpc.dist<[t, 8]>>, tensor<8x32xbf16> -> tensor<?x32xbf16, #tpc.dist<[t, 32]>>
  %a = tpc.gelu tanh %p : tensor<?x32xbf16, #tpc.dist<[t, 32]>> -> tensor<?x32xbf16, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %a, %d : tensor<?x32xbf16, #tpc.dist<[t, 32]>>, tensor<32x8xbf16> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %q, %m : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xbf16, #tpc.dist<[t, 6]>>
}
