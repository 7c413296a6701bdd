// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp300 --split-input-file 2>&1 | FileCheck %s --check-prefix=TP
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=dp2,mb2 --split-input-file 2>&1 | FileCheck %s --check-prefix=DP
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp0 --split-input-file 2>&1 | FileCheck %s --check-prefix=SPEC

// SPEC: for the --shard option: {{.*}}tp0

// TP: error: tp300 is larger than anything that can be split: {{.*}}; use tp160
// DP: error: the batch (batch, the first dimension of the inputs) cannot be split over dp2,mb2: 'across' (tpc.softmax) needs all of it
// DP: needed unsplit here; remove dp2,mb2
// DP: ops that depend on inputs alone can process all samples, but this depends on 'fc1' (tpc.matmul)
tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>>) -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> {
  %w1 = tpc.parameter @w1 : tensor<40x160xf32>
  %h = tpc.matmul %x, %w1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x160xf32> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("fc1")
  %n = tpc.softmax %h dim 0 : tensor<?x160xf32, #tpc.dist<[batch, 160]>> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("across")
  return %n : tensor<?x160xf32, #tpc.dist<[batch, 160]>>
}

// -----

// TP: error: tp300: no weight of the model can be split
// TP: a dimension of 400 is needed unsplit by 'norm' (tpc.softmax)
// DP: error: no input has a batch dimension that dp2,mb2 could split: every first dimension has size 1
tpc.weight @w1 in "w" at 0 : tensor<400x400xf32>
func.func @main(%x: tensor<1x400xf32>) -> tensor<1x400xf32> {
  %w1 = tpc.parameter @w1 : tensor<400x400xf32>
  %n = tpc.softmax %x dim 1 : tensor<1x400xf32> -> tensor<1x400xf32> loc("norm")
  %h = tpc.matmul %n, %w1 : tensor<1x400xf32>, tensor<400x400xf32> -> tensor<1x400xf32> loc("fc1")
  %m = tpc.softmax %h dim 1 : tensor<1x400xf32> -> tensor<1x400xf32> loc("norm2")
  return %m : tensor<1x400xf32>
}

// -----

// TP: error: tp300: no weight of the model can be split: it has no matrix product or embedding with a weight
func.func @main(%x: tensor<1x400xf32>) -> tensor<1x400xf32> {
  return %x : tensor<1x400xf32>
}

// -----

// A matrix that is an input cannot be split: inputs are replicated.
// TP: error: tp300: no weight of the model can be split: it has no matrix product or embedding with a weight; the matrix of 'qkv' is the input 'w', and inputs are whole on every rank: make it an initializer of the file, or split the batch with dp300
func.func @main(%x: tensor<1x400xf32>, %w: tensor<400x400xf32> {tpc.name = "w"}) -> tensor<1x400xf32> {
  %y = tpc.matmul %x, %w : tensor<1x400xf32>, tensor<400x400xf32> -> tensor<1x400xf32> loc("qkv")
  return %y : tensor<1x400xf32>
}

// -----

// TP: error: tp300: no weight of the model can be split
// TP: note: a dimension of 300 is needed unsplit by {{.*}} (tpc.softmax)
// TP: note: annotations decide the split of a dimension of 400: fc (columns)
tpc.weight @w in "w" at 0 {tpc.sharding = [unit, #tpc.dim<400>]} : tensor<300x400xf32>
func.func @main(%x: tensor<1x300xf32>) -> tensor<1x400xf32> {
  %w = tpc.parameter @w : tensor<300x400xf32>
  %n = tpc.softmax %x dim 1 : tensor<1x300xf32> -> tensor<1x300xf32>
  %y = tpc.matmul %n, %w : tensor<1x300xf32>, tensor<300x400xf32> -> tensor<1x400xf32> loc("fc")
  return %y : tensor<1x400xf32>
}

// -----

// TP: error: there is no function @main to partition
module {
}
