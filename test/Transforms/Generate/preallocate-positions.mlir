// RUN: tpc-opt %s --tpc-preallocate-caches | FileCheck %s

// Table rows are indexed by expressions of positions. Remainders and minima never exceed the table,
// but quotients and multiples limit the number of tokens. Indices of tokens beyond the limit are
// clamped.

#ids = #tpc.dist<[batch, sequence]>
#positions = #tpc.dist<[sequence]>
#rows = #tpc.dist<[sequence, 8]>
#x = #tpc.dist<[batch, sequence, 8]>

// CHECK: module attributes {tpc.constraints = [
// CHECK-SAME: {expr = #tpc.expr<capacity>, max = 128 : i64, min = 0 : i64, why = "table wpe has 32 rows"}
// CHECK-SAME: {expr = #tpc.expr<"2*capacity - 1">, max = 32 : i64, min = 0 : i64, why = "table wpe has 32 rows"}]
// CHECK-DAG: tpc.size "min(6, capacity - 1)"
// CHECK-DAG: tpc.size "min(19, capacity - 1)"
// CHECK-DAG: tpc.size "floordiv(capacity - 1, 4)"
// CHECK-DAG: tpc.size "2*capacity - 2"
!before = tensor<?x1x?x8xf32, #tpc.dist<[batch, 1, past, 8]>>
!after = tensor<?x1x?x8xf32, #tpc.dist<[batch, 1, "past + sequence", 8]>>
!new = tensor<?x1x?x8xf32, #tpc.dist<[batch, 1, sequence, 8]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = sequence>} {
  tpc.weight @wte in "w" at 0 : tensor<61x8xf32>
  tpc.weight @wpe in "w" at 4096 : tensor<32x8xf32>
  tpc.cache @k0 : tensor<?x1x?x8xf32, #tpc.dist<[batch, 1, capacity, 8]>>
  func.func @main(%ids: tensor<?x?xi64, #ids> {tpc.name = "input_ids"}, %k0: !before {tpc.cache = @k0})
      -> (tensor<?x?x8xf32, #x> {tpc.name = "y"}, !after {tpc.cache = @k0}) {
    %i = tpc.iota dim 0 : tensor<?xi64, #positions>
    %n = tpc.size past : tensor<i64>
    %p = tpc.add %i, %n : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %2 = tpc.constant dense<2> : tensor<i64> : tensor<i64>
    %4 = tpc.constant dense<4> : tensor<i64> : tensor<i64>
    %7 = tpc.constant dense<7> : tensor<i64> : tensor<i64>
    %19 = tpc.constant dense<19> : tensor<i64> : tensor<i64>
    %mod = tpc.mod %p, %7 : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %min = tpc.min %19, %p : tensor<i64>, tensor<?xi64, #positions> -> tensor<?xi64, #positions>
    %div = tpc.div %p, %4 : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %mul = tpc.mul %p, %2 : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %wte = tpc.parameter @wte : tensor<61x8xf32>
    %wpe = tpc.parameter @wpe : tensor<32x8xf32>
    %e = tpc.embedding %wte, %ids : tensor<61x8xf32>, tensor<?x?xi64, #ids> -> tensor<?x?x8xf32, #x>
    %r0 = tpc.embedding %wpe, %mod : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #rows>
    %r1 = tpc.embedding %wpe, %min : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #rows>
    %r2 = tpc.embedding %wpe, %div : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #rows>
    %r3 = tpc.embedding %wpe, %mul : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #rows>
    %x0 = tpc.add %e, %r0 : tensor<?x?x8xf32, #x>, tensor<?x8xf32, #rows> -> tensor<?x?x8xf32, #x>
    %x1 = tpc.add %x0, %r1 : tensor<?x?x8xf32, #x>, tensor<?x8xf32, #rows> -> tensor<?x?x8xf32, #x>
    %x2 = tpc.add %x1, %r2 : tensor<?x?x8xf32, #x>, tensor<?x8xf32, #rows> -> tensor<?x?x8xf32, #x>
    %x3 = tpc.add %x2, %r3 : tensor<?x?x8xf32, #x>, tensor<?x8xf32, #rows> -> tensor<?x?x8xf32, #x>
    %new = tpc.reshape %x3 : tensor<?x?x8xf32, #x> -> !new
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    return %x3, %all : tensor<?x?x8xf32, #x>, !after
  }
}
