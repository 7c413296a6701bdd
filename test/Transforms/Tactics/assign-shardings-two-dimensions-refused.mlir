// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp300x2 --split-input-file 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp2x300 --split-input-file 2>&1 | FileCheck %s --check-prefix=COLUMNS

// ROWS: error: tp300x2: the first dimension has more ranks than a matrix has rows: matrices have 40 rows; use tp40x2 or less
// COLUMNS: error: tp2x300 is larger than anything that can be split: {{.*}}; use tp2x160
tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @w2 in "w" at 0 : tensor<160x40xf32>
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>>) -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> {
  %w1 = tpc.parameter @w1 : tensor<40x160xf32>
  %w2 = tpc.parameter @w2 : tensor<160x40xf32>
  %h = tpc.matmul %x, %w1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x160xf32> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("fc1")
  %y = tpc.matmul %h, %w2 : tensor<?x160xf32, #tpc.dist<[batch, 160]>>, tensor<160x40xf32> -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> loc("fc2")
  return %y : tensor<?x40xf32, #tpc.dist<[batch, 40]>>
}

// -----

// ROWS: error: tp300x2: no matrix of the model can be split in two dimensions; use tp600, which splits one
// ROWS: a dimension of 40 is needed unsplit by 'across' (tpc.softmax)
tpc.weight @w1 in "w" at 0 : tensor<40x1600xf32>
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>>) -> tensor<?x1600xf32, #tpc.dist<[batch, 1600]>> {
  %w1 = tpc.parameter @w1 : tensor<40x1600xf32>
  %n = tpc.softmax %x dim 1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>> -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> loc("across")
  %h = tpc.matmul %n, %w1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x1600xf32> -> tensor<?x1600xf32, #tpc.dist<[batch, 1600]>> loc("fc1")
  return %h : tensor<?x1600xf32, #tpc.dist<[batch, 1600]>>
}

// -----

// ROWS: error: tp300x2: no weight of the model can be split: it has no matrix product or embedding with a weight
func.func @main(%x: tensor<1x400xf32>) -> tensor<1x400xf32> {
  return %x : tensor<1x400xf32>
}
