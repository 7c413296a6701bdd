// Which ops sequence parallelism places on parts of the tokens: the column-parallel product's
// operand is gathered, the row-parallel product's result scattered.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,sp --tpc-insert-reshards --split-input-file | FileCheck %s

// Between the products; the norm of the input is not: slicing it would only add a gather.
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
// CHECK: tpc.matmul
// CHECK: %[[P:.*]] = tpc.matmul {{.*}}, sum{tp}>>
// CHECK-NEXT: %[[R:.*]] = tpc.reshard %[[P]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t{tp}, 8]>>
// CHECK-NEXT: %[[A:.*]] = tpc.add %{{.*}}, %[[R]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t{tp}, 8]>>
// CHECK-NEXT: %[[N:.*]] = tpc.rms_norm %[[A]]
// CHECK-NEXT: %[[G:.*]] = tpc.reshard %[[N]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
// CHECK-NEXT: tpc.matmul %[[G]]
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
tpc.weight @h in "w" at 0 : tensor<8x50xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x50xf32, #tpc.dist<[t, 50]>> {
  %s = tpc.parameter @s : tensor<8xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %h = tpc.parameter @h : tensor<8x50xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %p = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %p, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %r = tpc.add %x, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %m = tpc.rms_norm %r, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %l = tpc.matmul %m, %h : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x50xf32> -> tensor<?x50xf32, #tpc.dist<[t, 50]>>
  return %l : tensor<?x50xf32, #tpc.dist<[t, 50]>>
}

// -----

// Two norms of one residual: it is gathered once, and both norms work on all of it.
// CHECK-LABEL: @main
// CHECK: %[[A:.*]] = tpc.add {{.*}}[t{tp}, 8]
// CHECK-NEXT: %[[G:.*]] = tpc.reshard %[[A]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
// CHECK-NEXT: tpc.rms_norm %[[G]]
// CHECK-NEXT: tpc.layer_norm %[[G]]
// CHECK-NOT: tpc.reshard
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x32xf32, #tpc.dist<[t, 32]>>, %y: tensor<?x8xf32, #tpc.dist<[t, 8]>>)
    -> (tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x32xf32, #tpc.dist<[t, 32]>>) {
  %s = tpc.parameter @s : tensor<8xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %p = tpc.matmul %x, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %a = tpc.add %p, %y : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %n = tpc.rms_norm %a, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %m = tpc.layer_norm %a, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %q = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %r = tpc.matmul %m, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  return %q, %r : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x32xf32, #tpc.dist<[t, 32]>>
}

// -----

// Nothing is reduced, so nothing is placed.
// CHECK-NOT: name = "sp"
// CHECK-LABEL: @main
// CHECK-NOT: tpc.reshard
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @h in "w" at 0 : tensor<8x50xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x50xf32, #tpc.dist<[t, 50]>> {
  %s = tpc.parameter @s : tensor<8xf32>
  %h = tpc.parameter @h : tensor<8x50xf32>
  %m = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %l = tpc.matmul %m, %h : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x50xf32> -> tensor<?x50xf32, #tpc.dist<[t, 50]>>
  return %l : tensor<?x50xf32, #tpc.dist<[t, 50]>>
}
