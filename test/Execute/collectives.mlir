// All rewrites of tpc-optimize-collectives and tpc-coalesce-collectives preserve values, with
// uneven sizes, and reduce the number of collectives, which is counted before and after.
// DEFINE: %{evaluate} = --tpc-evaluate
// RUN: tpc-opt %s %{evaluate} --tpc-localize %{evaluate} --tpc-optimize-collectives %{evaluate} --tpc-coalesce-collectives %{evaluate} -o %t.mlir | FileCheck %s
// RUN: tpc-opt %s %{evaluate} --tpc-localize --tpc-optimize-collectives --tpc-coalesce-collectives --tpc-split-stages --tpc-schedule-pipeline %{evaluate} -o %t.staged.mlir | FileCheck %s --check-prefix=STAGED
// RUN: grep -c '^ .*= tpc.all_\|^ .*= tpc.reduce_scatter' %s | FileCheck %s --check-prefix=BEFORE
// RUN: grep -c '^ .*= tpc.all_\|^ .*= tpc.reduce_scatter' %t.mlir | FileCheck %s --check-prefix=AFTER

// CHECK-COUNT-24: is the same
// STAGED-COUNT-8: is the same
// BEFORE: 15
// AFTER: 4

!x = tensor<7x10xf32>
!tp = tensor<7x10xf32, #tpc.dist<[7{tp}, 10]>>
!sum = tensor<7x10xf32, #tpc.dist<[7, 10], sum{tp}>>
!k = tensor<7x10xf32, #tpc.dist<[7, 10{tp}]>>

module attributes {tpc.mesh = #tpc.mesh<tp = 3, cp = 2, pp = 1, mb = 1>} {
  func.func @main(%x: !x, %y: !x, %w: tensor<10x10xf32>)
      -> (!x, !x, tensor<10xf32>, tensor<1x10xf32>, tensor<7x10xi1>, tensor<7xf32>, !tp, !x) {
    %xp = tpc.local_slice %x over ["tp"] dim 0 : !x -> !tp
    %yp = tpc.local_slice %y over ["tp"] dim 0 : !x -> !tp
    %xk = tpc.local_slice %x over ["tp"] dim 1 : !x -> !k
    %wk = tpc.local_slice %w over ["tp"] dim 0 : tensor<10x10xf32> -> tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>>
    %p0 = tpc.exp %xp : !tp -> !tp
    %p1 = tpc.tanh %xp : !tp -> !tp
    %p2 = tpc.sin %xp : !tp -> !tp
    %p3 = tpc.cos %xp : !tp -> !tp
    %p4 = tpc.sigmoid %xp : !tp -> !tp
    %k0 = tpc.exp %xk : !k -> !k
    %s0 = tpc.matmul %k0, %wk : !k, tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>> -> !sum
    %k1 = tpc.tanh %xk : !k -> !k
    %s1 = tpc.matmul %k1, %wk : !k, tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>> -> !sum
    %k2 = tpc.sin %xk : !k -> !k
    %s2 = tpc.matmul %k2, %wk : !k, tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>> -> !sum
    %k3 = tpc.cos %xk : !k -> !k
    %s3 = tpc.matmul %k3, %wk : !k, tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>> -> !sum
    %k4 = tpc.sigmoid %xk : !k -> !k
    %s4 = tpc.matmul %k4, %wk : !k, tensor<10x10xf32, #tpc.dist<[10{tp}, 10]>> -> !sum

    // Two gathers, one of them followed by a unary op, are operands of one op.
    %0 = tpc.all_gather %p0 over ["tp"] dim 0 : !tp -> !x
    %1 = tpc.all_gather %p1 over ["tp"] dim 0 : !tp -> !x
    %2 = tpc.relu %1 : !x -> !x
    %3 = tpc.sub %0, %2 : !x, !x -> !x

    // A sum of two reductions, then a slice; a duplicate gather, and a dead reduction.
    %4 = tpc.all_reduce %s0 over ["tp"] : !sum -> !x
    %5 = tpc.all_reduce %s1 over ["tp"] : !sum -> !x
    %6 = tpc.add %4, %5 : !x, !x -> !x
    %7 = tpc.local_slice %6 over ["tp"] dim 0 : !x -> !tp
    %8 = tpc.gelu tanh %7 : !tp -> !tp
    %9 = tpc.all_gather %8 over ["tp"] dim 0 : !tp -> !x
    %10 = tpc.all_gather %8 over ["tp"] dim 0 : !tp -> !x
    %11 = tpc.add %9, %10 : !x, !x -> !x
    %12 = tpc.all_reduce %s2 over ["tp"] : !sum -> !x

    // A gather before a reduction; an all-reduce before a slice.
    %13 = tpc.all_gather %p2 over ["tp"] dim 0 : !tp -> !x
    %14 = tpc.reduce sum %13 [0] : !x -> tensor<10xf32>
    %15 = tpc.all_reduce %s3 over ["tp"] : !sum -> !x
    %16 = tpc.slice %15 dim 0 from 2 : !x -> tensor<1x10xf32>

    // A gather before a comparison with a replicated value.
    %17 = tpc.all_gather %p3 over ["tp"] dim 0 : !tp -> !x
    %18 = tpc.cmp lt %17, %y : !x, !x -> tensor<7x10xi1>

    // Sums of rows over split columns.
    %19 = tpc.reduce sum %xk [1] : !k -> tensor<7xf32, #tpc.dist<[7], sum{tp}>>
    %20 = tpc.all_reduce %19 over ["tp"] : tensor<7xf32, #tpc.dist<[7], sum{tp}>> -> tensor<7xf32>

    // An all-to-all and its inverse, and a scatter that is gathered again.
    %21 = tpc.all_to_all %p4 over ["tp"] from 0 to 1 : !tp -> !k
    %22 = tpc.all_gather %21 over ["tp"] dim 1 : !k -> !x
    %23 = tpc.local_slice %22 over ["tp"] dim 0 : !x -> !tp
    %24 = tpc.reduce_scatter %s4 over ["tp"] dim 0 : !sum -> !tp
    %25 = tpc.add %23, %24 : !tp, !tp -> !tp
    %26 = tpc.all_gather %24 over ["tp"] dim 0 : !tp -> !x
    return %3, %11, %14, %16, %18, %20, %25, %26 : !x, !x, tensor<10xf32>, tensor<1x10xf32>, tensor<7x10xi1>, tensor<7xf32>, !tp, !x
  }
}
