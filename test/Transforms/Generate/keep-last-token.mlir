// RUN: tpc-opt %s -split-input-file --tpc-keep-last-token --cse | FileCheck %s

// Keys are computed for all tokens; queries, attention results and the head only for the last
// tokens.

#tokens = #tpc.dist<["batch * sequence", 8]>
#heads = #tpc.dist<[batch, sequence, 2, 4]>
#new = #tpc.dist<[batch, 2, sequence, 4]>
#cache = #tpc.dist<[batch, 2, capacity, 4]>
#keys = #tpc.dist<[batch, capacity, 2, 4]>
#logits = #tpc.dist<["batch * sequence", 61]>
#out = #tpc.dist<[batch, sequence, 61]>

// CHECK: tpc.step = #tpc.step<tokens = sequence, capacity = {{.*}}, lengths = "lengths", counts = "counts", last>
// CHECK: func.func @main(%[[X:.*]]: tensor<?x8xf32, {{.*}}, %[[LENGTHS:.*]]: tensor<?xi64, {{.*}}, %[[COUNTS:.*]]: tensor<?xi64, {{.*}}, %[[K0:.*]]: {{.*}} -> (tensor<?x61xf32, #tpc.dist<[batch, 61]>> {tpc.name = "logits"},
// CHECK: %[[LAST:.*]] = tpc.sub %[[COUNTS]], %{{.*}}
// CHECK: tpc.gather_nd %{{.*}}, %{{.*}} batch 1
// CHECK: tpc.matmul {{.*}} -> tensor<?x8xf32, #tpc.dist<[batch*sequence, 8]>>
// CHECK: %[[ALL:.*]] = tpc.append %[[K0]]
// CHECK: tpc.matmul {{.*}} -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
// CHECK: %[[Q:.*]] = tpc.reshape {{.*}} -> tensor<?x1x2x4xf32, #tpc.dist<[batch, 1, 2, 4]>>
// CHECK: %[[AT:.*]] = tpc.add %[[LENGTHS]], %[[LAST]]
// CHECK: tpc.attention causal %[[Q]], {{.*}} lengths %[[AT]]
// CHECK: tpc.matmul {{.*}} -> tensor<?x61xf32, #tpc.dist<[batch, 61]>>
// CHECK-NOT: #tpc.dist<[batch, sequence, 61]>
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  tpc.weight @q in "w" at 0 : tensor<8x8xf32>
  tpc.weight @k in "w" at 256 : tensor<8x8xf32>
  tpc.weight @head in "w" at 512 : tensor<8x61xf32>
  tpc.cache @k0 : tensor<?x2x?x4xf32, #cache>
  func.func @main(%x: tensor<?x8xf32, #tokens> {tpc.name = "x"}, %lengths: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "lengths"},
                  %counts: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "counts"}, %k0: tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"})
      -> (tensor<?x?x61xf32, #out> {tpc.name = "logits"}, tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"}) {
    %wk = tpc.parameter @k : tensor<8x8xf32>
    %f = tpc.matmul %x, %wk : tensor<?x8xf32, #tokens>, tensor<8x8xf32> -> tensor<?x8xf32, #tokens>
    %h = tpc.reshape %f : tensor<?x8xf32, #tokens> -> tensor<?x?x2x4xf32, #heads>
    %t = tpc.transpose %h [0, 2, 1, 3] : tensor<?x?x2x4xf32, #heads> -> tensor<?x2x?x4xf32, #new>
    %all = tpc.append %k0, %t at %lengths : tensor<?x2x?x4xf32, #cache>, tensor<?x2x?x4xf32, #new>, tensor<?xi64, #tpc.dist<[batch]>> -> tensor<?x2x?x4xf32, #cache>
    %k = tpc.transpose %all [0, 2, 1, 3] : tensor<?x2x?x4xf32, #cache> -> tensor<?x?x2x4xf32, #keys>
    %wq = tpc.parameter @q : tensor<8x8xf32>
    %p = tpc.matmul %x, %wq : tensor<?x8xf32, #tokens>, tensor<8x8xf32> -> tensor<?x8xf32, #tokens>
    %q = tpc.reshape %p : tensor<?x8xf32, #tokens> -> tensor<?x?x2x4xf32, #heads>
    %a = tpc.attention causal %q, %k, %k lengths %lengths scale 0.5 : tensor<?x?x2x4xf32, #heads>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #tpc.dist<[batch]>> -> tensor<?x?x2x4xf32, #heads>
    %b = tpc.reshape %a : tensor<?x?x2x4xf32, #heads> -> tensor<?x8xf32, #tokens>
    %r = tpc.add %b, %x : tensor<?x8xf32, #tokens>, tensor<?x8xf32, #tokens> -> tensor<?x8xf32, #tokens>
    %w = tpc.parameter @head : tensor<8x61xf32>
    %l = tpc.matmul %r, %w : tensor<?x8xf32, #tokens>, tensor<8x61xf32> -> tensor<?x61xf32, #logits>
    %o = tpc.reshape %l : tensor<?x61xf32, #logits> -> tensor<?x?x61xf32, #out>
    return %o, %all : tensor<?x?x61xf32, #out>, tensor<?x2x?x4xf32, #cache>
  }
}

// -----

// Functions that are not steps on preallocated caches are unchanged.
// CHECK-LABEL: func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: return %arg0
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

