// Sequence parallelism runs ops outside of matmuls on sharded tokens. The operand of the
// column-parallel matmul is gathered, and the result of the row-parallel matmul is scattered.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,sp --tpc-insert-reshards --split-input-file | FileCheck %s

// Ops between a row-parallel and the next column-parallel matmul are sharded. The norm of the input
// is not, because slicing the input would only add a gather.
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

// Two norms read one residual. It is gathered once, and both norms work on all tokens.
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

// Without a reduction, no op is sharded.
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

// -----

// Sums of sums have exponentially many paths, but the pass visits each op once.
// CHECK-LABEL: @main
// CHECK-COUNT-40: tpc.add {{.*}}[t{tp}, 8]
!t = tensor<?x8xf32, #tpc.dist<[t, 8]>>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: !t) -> !t {
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %p = tpc.matmul %x, %u : !t, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %0 = tpc.matmul %p, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> !t
  %1 = tpc.add %0, %0 : !t, !t -> !t
  %2 = tpc.add %1, %1 : !t, !t -> !t
  %3 = tpc.add %2, %2 : !t, !t -> !t
  %4 = tpc.add %3, %3 : !t, !t -> !t
  %5 = tpc.add %4, %4 : !t, !t -> !t
  %6 = tpc.add %5, %5 : !t, !t -> !t
  %7 = tpc.add %6, %6 : !t, !t -> !t
  %8 = tpc.add %7, %7 : !t, !t -> !t
  %9 = tpc.add %8, %8 : !t, !t -> !t
  %10 = tpc.add %9, %9 : !t, !t -> !t
  %11 = tpc.add %10, %10 : !t, !t -> !t
  %12 = tpc.add %11, %11 : !t, !t -> !t
  %13 = tpc.add %12, %12 : !t, !t -> !t
  %14 = tpc.add %13, %13 : !t, !t -> !t
  %15 = tpc.add %14, %14 : !t, !t -> !t
  %16 = tpc.add %15, %15 : !t, !t -> !t
  %17 = tpc.add %16, %16 : !t, !t -> !t
  %18 = tpc.add %17, %17 : !t, !t -> !t
  %19 = tpc.add %18, %18 : !t, !t -> !t
  %20 = tpc.add %19, %19 : !t, !t -> !t
  %21 = tpc.add %20, %20 : !t, !t -> !t
  %22 = tpc.add %21, %21 : !t, !t -> !t
  %23 = tpc.add %22, %22 : !t, !t -> !t
  %24 = tpc.add %23, %23 : !t, !t -> !t
  %25 = tpc.add %24, %24 : !t, !t -> !t
  %26 = tpc.add %25, %25 : !t, !t -> !t
  %27 = tpc.add %26, %26 : !t, !t -> !t
  %28 = tpc.add %27, %27 : !t, !t -> !t
  %29 = tpc.add %28, %28 : !t, !t -> !t
  %30 = tpc.add %29, %29 : !t, !t -> !t
  %31 = tpc.add %30, %30 : !t, !t -> !t
  %32 = tpc.add %31, %31 : !t, !t -> !t
  %33 = tpc.add %32, %32 : !t, !t -> !t
  %34 = tpc.add %33, %33 : !t, !t -> !t
  %35 = tpc.add %34, %34 : !t, !t -> !t
  %36 = tpc.add %35, %35 : !t, !t -> !t
  %37 = tpc.add %36, %36 : !t, !t -> !t
  %38 = tpc.add %37, %37 : !t, !t -> !t
  %39 = tpc.add %38, %38 : !t, !t -> !t
  %40 = tpc.add %39, %39 : !t, !t -> !t
  return %40 : !t
}

// -----

// Every rank needs the few columns of a small matmul (the keys of one head, with a bias). Its
// operand is gathered for the other matmul anyway. So each rank computes all of these columns, and
// they are not gathered.
// CHECK-LABEL: @main
// CHECK: %[[A:.*]] = tpc.add {{.*}}[t{tp}, 8]
// CHECK-NEXT: %[[G:.*]] = tpc.reshard %[[A]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
// CHECK: tpc.matmul %[[G]]
// CHECK: tpc.matmul %[[G]]
// CHECK-NOT: tpc.reshard
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
tpc.weight @k in "w" at 0 : tensor<8x3xf32>
tpc.weight @b in "w" at 0 : tensor<3xf32>
tpc.weight @h in "w" at 0 : tensor<3x32xf32>
func.func @main(%x: tensor<?x32xf32, #tpc.dist<[t, 32]>>, %y: tensor<?x8xf32, #tpc.dist<[t, 8]>>)
    -> (tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>>) {
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %k = tpc.parameter @k : tensor<8x3xf32>
  %b = tpc.parameter @b : tensor<3xf32>
  %h = tpc.parameter @h : tensor<3x32xf32>
  %p = tpc.matmul %x, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %a = tpc.add %p, %y : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %q = tpc.matmul %a, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %c = tpc.matmul %a, %k bias %b : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x3xf32> bias tensor<3xf32> -> tensor<?x3xf32, #tpc.dist<[t, 3]>>
  %e = tpc.softmax %c dim 1 : tensor<?x3xf32, #tpc.dist<[t, 3]>> -> tensor<?x3xf32, #tpc.dist<[t, 3]>>
  %r = tpc.matmul %e, %h : tensor<?x3xf32, #tpc.dist<[t, 3]>>, tensor<3x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  return %q, %r, %a : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>>
}
