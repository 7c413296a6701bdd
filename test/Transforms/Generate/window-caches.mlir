// RUN: tpc-opt %s -split-input-file --tpc-window-caches | FileCheck %s

// Sliding-window caches get their own capacity and lengths. Positions do not change.

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#new = #tpc.dist<[batch, 2, sequence, 4]>
#cache = #tpc.dist<[batch, 2, capacity, 4]>
#keys = #tpc.dist<[batch, capacity, 2, 4]>

// CHECK-LABEL: module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts", window = 8, window_capacity = window_capacity, window_lengths = "window_lengths">}
// CHECK: tpc.cache @k0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, window_capacity, 4]>>
// CHECK: tpc.cache @k1 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>>
// CHECK: %[[LENGTHS:[a-z0-9]*]]: {{[^{]*}} {tpc.name = "lengths"}, %{{.*}} {tpc.name = "counts"}, %[[OWN:[a-z0-9]*]]: {{[^{]*}} {tpc.name = "window_lengths"}
// CHECK: tpc.append %{{.*}} at %[[OWN]] : {{.*}} -> tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, window_capacity, 4]>>
// CHECK: tpc.append %{{.*}} at %[[LENGTHS]] : {{.*}} -> tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>>
// CHECK: tpc.attention causal {{.*}} lengths %[[OWN]] scale 1.000000e+00 window 8
// CHECK: tpc.attention causal {{.*}} lengths %[[LENGTHS]] scale 1.000000e+00 :
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  tpc.cache @k0 : tensor<?x2x?x4xf32, #cache>
  tpc.cache @k1 : tensor<?x2x?x4xf32, #cache>
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"},
                  %k0: tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"}, %k1: tensor<?x2x?x4xf32, #cache> {tpc.cache = @k1, tpc.name = "k1"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}, tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"}, tensor<?x2x?x4xf32, #cache> {tpc.cache = @k1, tpc.name = "k1"}) {
    %new = tpc.transpose %x [0, 2, 1, 3] : tensor<?x?x2x4xf32, #x> -> tensor<?x2x?x4xf32, #new>
    %a0 = tpc.append %k0, %new at %n : tensor<?x2x?x4xf32, #cache>, tensor<?x2x?x4xf32, #new>, tensor<?xi64, #n> -> tensor<?x2x?x4xf32, #cache>
    %a1 = tpc.append %k1, %new at %n : tensor<?x2x?x4xf32, #cache>, tensor<?x2x?x4xf32, #new>, tensor<?xi64, #n> -> tensor<?x2x?x4xf32, #cache>
    %t0 = tpc.transpose %a0 [0, 2, 1, 3] : tensor<?x2x?x4xf32, #cache> -> tensor<?x?x2x4xf32, #keys>
    %t1 = tpc.transpose %a1 [0, 2, 1, 3] : tensor<?x2x?x4xf32, #cache> -> tensor<?x?x2x4xf32, #keys>
    %y = tpc.attention causal %x, %t0, %t0 lengths %n scale 1.0 window 8 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
    %z = tpc.attention causal %y, %t1, %t1 lengths %n scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
    return %z, %a0, %a1 : tensor<?x?x2x4xf32, #x>, tensor<?x2x?x4xf32, #cache>, tensor<?x2x?x4xf32, #cache>
  }
}

// -----

// A cache that attention without a window also reads has full capacity.

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#new = #tpc.dist<[batch, 2, sequence, 4]>
#cache = #tpc.dist<[batch, 2, capacity, 4]>
#keys = #tpc.dist<[batch, capacity, 2, 4]>

// CHECK-LABEL: module attributes {tpc.step
// CHECK-NOT: window_capacity
module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  tpc.cache @k0 : tensor<?x2x?x4xf32, #cache>
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"},
                  %k0: tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}, tensor<?x2x?x4xf32, #cache> {tpc.cache = @k0, tpc.name = "k0"}) {
    %new = tpc.transpose %x [0, 2, 1, 3] : tensor<?x?x2x4xf32, #x> -> tensor<?x2x?x4xf32, #new>
    %a0 = tpc.append %k0, %new at %n : tensor<?x2x?x4xf32, #cache>, tensor<?x2x?x4xf32, #new>, tensor<?xi64, #n> -> tensor<?x2x?x4xf32, #cache>
    %t0 = tpc.transpose %a0 [0, 2, 1, 3] : tensor<?x2x?x4xf32, #cache> -> tensor<?x?x2x4xf32, #keys>
    %y = tpc.attention causal %x, %t0, %t0 lengths %n scale 1.0 window 8 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
    %z = tpc.attention causal %y, %t0, %t0 lengths %n scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
    return %z, %a0 : tensor<?x?x2x4xf32, #x>, tensor<?x2x?x4xf32, #cache>
  }
}
