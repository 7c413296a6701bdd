// RUN: tpc-opt %s -split-input-file --tpc-preallocate-caches | FileCheck %s

// Caches have their full capacity. New tokens and queries come after the tokens of each sequence.
// Positions get a leading batch dimension, up to the op that combines them with values of the
// batch. The table's rows limit the capacity, and indices of tokens beyond it are clamped.

#ids = #tpc.dist<[batch, sequence]>
#positions = #tpc.dist<[sequence]>
#rows = #tpc.dist<[sequence, 8]>
#x = #tpc.dist<[batch, sequence, 8]>
#heads = #tpc.dist<[batch, sequence, 2, 4]>
#new = #tpc.dist<[batch, 2, sequence, 4]>
#before = #tpc.dist<[batch, 2, past, 4]>
#after = #tpc.dist<[batch, 2, "past + sequence", 4]>
#keys = #tpc.dist<[batch, "past + sequence", 2, 4]>

// CHECK: module attributes {tpc.constraints = [{expr = #tpc.expr<capacity>, max = 32 : i64, min = 0 : i64, why = "table wpe has 32 rows"}]
// CHECK-SAME: tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">
// CHECK-NOT: past
// CHECK: func.func @main(%arg0: {{.*}} {tpc.name = "input_ids"}, %[[LENGTHS:.*]]: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "lengths"},
// CHECK-SAME: %[[COUNTS:.*]]: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "counts"}, %[[K0:.*]]: tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>> {tpc.cache = @k0, tpc.name = "k0"})
// CHECK-SAME: tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>> {tpc.cache = @k0, tpc.name = "k0"})
// CHECK: %[[IOTA:.*]] = tpc.iota dim 0
// CHECK: %[[OWN:.*]] = tpc.reshape %[[LENGTHS]] : {{.*}} -> tensor<?x1xi64, #tpc.dist<[batch, 1]>>
// CHECK: %[[P:.*]] = tpc.add %[[IOTA]], %[[OWN]] : {{.*}} -> tensor<?x?xi64, #tpc.dist<[batch, sequence]>>
// CHECK: %[[END:.*]] = tpc.size "capacity - 1"
// CHECK: %[[IDS:.*]] = tpc.min %[[P]], %[[END]]
// CHECK: tpc.embedding %{{.*}}, %[[IDS]] : {{.*}} -> tensor<?x?x8xf32, #tpc.dist<[batch, sequence, 8]>>
// CHECK: %[[ALL:.*]] = tpc.append %[[K0]], %{{.*}} at %[[LENGTHS]]
// CHECK: %[[KEYS:.*]] = tpc.transpose %[[ALL]] {{.*}} -> tensor<?x?x2x4xf32, #tpc.dist<[batch, capacity, 2, 4]>>
// CHECK: tpc.attention causal %{{.*}}, %[[KEYS]], %[[KEYS]] lengths %[[LENGTHS]] scale 5.000000e-01 :
// CHECK-NOT: past
// Constraints that hold for any past and one new token are removed.
module attributes {tpc.constraints = [{expr = #tpc.expr<"past + 2*sequence">, min = 1 : i64, why = "MPT compares sizes"}],
                   tpc.step = #tpc.step<past = past, tokens = sequence>} {
  tpc.weight @wte in "w" at 0 : tensor<61x8xf32>
  tpc.weight @wpe in "w" at 4096 : tensor<32x8xf32>
  tpc.cache @k0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>>
  func.func @main(%ids: tensor<?x?xi64, #ids> {tpc.name = "input_ids"}, %k0: tensor<?x2x?x4xf32, #before> {tpc.cache = @k0, tpc.name = "k0"})
      -> (tensor<?x?x2x4xf32, #heads> {tpc.name = "y"}, tensor<?x2x?x4xf32, #after> {tpc.cache = @k0, tpc.name = "k0"}) {
    %i = tpc.iota dim 0 : tensor<?xi64, #positions>
    %n = tpc.size past : tensor<i64>
    %p = tpc.add %i, %n : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %wte = tpc.parameter @wte : tensor<61x8xf32>
    %wpe = tpc.parameter @wpe : tensor<32x8xf32>
    %e = tpc.embedding %wte, %ids : tensor<61x8xf32>, tensor<?x?xi64, #ids> -> tensor<?x?x8xf32, #x>
    %r = tpc.embedding %wpe, %p : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #rows>
    %x = tpc.add %e, %r : tensor<?x?x8xf32, #x>, tensor<?x8xf32, #rows> -> tensor<?x?x8xf32, #x>
    %h = tpc.reshape %x : tensor<?x?x8xf32, #x> -> tensor<?x?x2x4xf32, #heads>
    %t = tpc.transpose %h [0, 2, 1, 3] : tensor<?x?x2x4xf32, #heads> -> tensor<?x2x?x4xf32, #new>
    %all = tpc.concat %k0, %t dim 2 : tensor<?x2x?x4xf32, #before>, tensor<?x2x?x4xf32, #new> -> tensor<?x2x?x4xf32, #after>
    %k = tpc.transpose %all [0, 2, 1, 3] : tensor<?x2x?x4xf32, #after> -> tensor<?x?x2x4xf32, #keys>
    %y = tpc.attention causal %h, %k, %k scale 0.5 offset past : tensor<?x?x2x4xf32, #heads>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> -> tensor<?x?x2x4xf32, #heads>
    return %y, %all : tensor<?x?x2x4xf32, #heads>, tensor<?x2x?x4xf32, #after>
  }
}

// -----

// Functions that are not steps are unchanged.
// CHECK-LABEL: func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: return %arg0
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
