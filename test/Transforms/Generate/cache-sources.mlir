// RUN: tpc-opt %s -split-input-file --tpc-cache-sources | FileCheck %s

// Keys and values of a source become caches. All tokens see the keys up to the last source token.

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#s = #tpc.dist<[batch, source, 2, 4]>

// CHECK-LABEL: module attributes {tpc.source_caches = {capacity = "source_capacity", lengths = "source_lengths", tokens = "source"}, tpc.step = {{.*}}}
// CHECK: tpc.cache @source_k0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, source_capacity, 4]>>
// CHECK: tpc.cache @source_v0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, source_capacity, 4]>>
// CHECK: %[[LENGTHS:[a-z0-9]*]]: {{[^{]*}} {tpc.name = "source_lengths"}, %[[K:[a-z0-9_]*]]: {{[^{]*}} {tpc.cache = @source_k0, tpc.name = "source_k0"}, %[[V:[a-z0-9_]*]]:
// CHECK: tpc.append %[[K]], %{{.*}} at %[[LENGTHS]]
// CHECK: tpc.reshape %{{.*}} -> tensor<?x1x?x4xf32, #tpc.dist<[batch, 1, 2*sequence, 4]>>
// CHECK: tpc.attention causal %{{.*}}, %{{.*}}, %{{.*}} lengths %[[LENGTHS]] scale 1.000000e+00 offset "source - 1"
// CHECK-SAME: tensor<?x?x2x4xf32, #tpc.dist<[batch, source_capacity, 2, 4]>>
// CHECK: tpc.transpose %{{.*}} -> tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %k: tensor<?x?x2x4xf32, #s> {tpc.name = "k"}, %v: tensor<?x?x2x4xf32, #s> {tpc.name = "v"},
                  %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}) {
    %y = tpc.attention %x, %k, %v scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s> -> tensor<?x?x2x4xf32, #x>
    return %y : tensor<?x?x2x4xf32, #x>
  }
}

// -----

// Attention of the source itself, and a program without a source, are not changed.

#n = #tpc.dist<[batch]>
#s = #tpc.dist<[batch, source, 2, 4]>

// CHECK-LABEL: module attributes {tpc.step
// CHECK-NOT: tpc.source_caches
// CHECK-NOT: tpc.cache
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #s> {tpc.name = "x"}, %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #s> {tpc.name = "y"}) {
    %y = tpc.attention %x, %x, %x scale 1.0 : tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s> -> tensor<?x?x2x4xf32, #s>
    return %y : tensor<?x?x2x4xf32, #s>
  }
}

// -----

// All sources have 9 tokens: a sequence brings one or none. Values computed from them have as many
// rows.

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#h = #tpc.dist<[batch, 9, 8]>
#s = #tpc.dist<[batch, 9, 2, 4]>

// CHECK-LABEL: module attributes {tpc.source_caches = {capacity = "source_capacity", each = 9 : i64, lengths = "source_lengths", tokens = "sources"}, tpc.step = {{.*}}}
// CHECK: %[[H:[a-z0-9]*]]: tensor<?x9x8xf32, #tpc.dist<[batch*sources, 9, 8]>> {tpc.name = "h"}
// CHECK: tpc.matmul %[[H]], %{{.*}} -> tensor<?x9x8xf32, #tpc.dist<[batch*sources, 9, 8]>>
// CHECK: %[[K:.*]] = tpc.reshape %{{.*}} -> tensor<?x?x2x4xf32, #tpc.dist<[batch, 9*sources, 2, 4]>>
// CHECK: tpc.transpose %[[K]] [0, 2, 1, 3]
// CHECK: tpc.attention causal %{{.*}}, %{{.*}}, %{{.*}} lengths %{{.*}} scale 1.000000e+00 offset "9*sources - 1"
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %h: tensor<?x9x8xf32, #h> {tpc.name = "h"}, %w: tensor<8x8xf32> {tpc.name = "w"},
                  %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}) {
    %m = tpc.matmul %h, %w : tensor<?x9x8xf32, #h>, tensor<8x8xf32> -> tensor<?x9x8xf32, #h>
    %k = tpc.reshape %m : tensor<?x9x8xf32, #h> -> tensor<?x9x2x4xf32, #s>
    %y = tpc.attention %x, %k, %k scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x9x2x4xf32, #s>, tensor<?x9x2x4xf32, #s> -> tensor<?x?x2x4xf32, #x>
    return %y : tensor<?x?x2x4xf32, #x>
  }
}
