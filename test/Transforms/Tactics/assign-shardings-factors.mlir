// Annotations name factors of dimensions. A rank has exactly the annotated elements, or there is an
// error.
// RUN: tpc-opt %s "--tpc-assign-shardings=shard=tp2,manual" --tpc-insert-reshards --split-input-file | FileCheck %s

// Contiguous halves need no factors.
// CHECK-LABEL: module @halves
module @halves {
  tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<2{tp} * 24>]} : tensor<16x48xf32>
  tpc.weight @v in "w" at 0 : tensor<48x16xf32>
  func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    // CHECK: tpc.parameter @w : tensor<16x48xf32, #tpc.dist<[16, 48{tp}]>>
    // CHECK: tpc.parameter @v : tensor<48x16xf32, #tpc.dist<[48{tp}, 16]>>
    %w = tpc.parameter @w : tensor<16x48xf32>
    %y = tpc.matmul %x, %w : tensor<4x16xf32>, tensor<16x48xf32> -> tensor<4x48xf32>
    %v = tpc.parameter @v : tensor<48x16xf32>
    %z = tpc.matmul %y, %v : tensor<4x48xf32>, tensor<48x16xf32> -> tensor<4x16xf32>
    return %z : tensor<4x16xf32>
  }
}

// -----

// A rank has half of each of two blocks of columns, and the matching rows of the next weight.
// CHECK-LABEL: module @strided
module @strided {
  tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<2 * 24{tp}>]} : tensor<16x48xf32>
  tpc.weight @v in "w" at 0 : tensor<48x16xf32>
  func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    // CHECK: tpc.parameter @w : tensor<16x48xf32, #tpc.dist<[16, 2*24{tp}]>>
    // CHECK: tpc.parameter @v : tensor<48x16xf32, #tpc.dist<[2*24{tp}, 16]>>
    %w = tpc.parameter @w : tensor<16x48xf32>
    %y = tpc.matmul %x, %w : tensor<4x16xf32>, tensor<16x48xf32> -> tensor<4x48xf32>
    %v = tpc.parameter @v : tensor<48x16xf32>
    %z = tpc.matmul %y, %v : tensor<4x48xf32>, tensor<48x16xf32> -> tensor<4x16xf32>
    return %z : tensor<4x16xf32>
  }
}

// -----

// The first rank has two of three blocks, which is not half of the dimension.
// CHECK-LABEL: module @uneven
module @uneven {
  tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<3{tp} * 16>]} : tensor<16x48xf32>
  func.func @main(%x: tensor<4x16xf32>) -> tensor<4x48xf32> {
    // CHECK: tpc.parameter @w : tensor<16x48xf32, #tpc.dist<[16, 3{tp}*16]>>
    %w = tpc.parameter @w : tensor<16x48xf32>
    %y = tpc.matmul %x, %w : tensor<4x16xf32>, tensor<16x48xf32> -> tensor<4x48xf32>
    return %y : tensor<4x48xf32>
  }
}

// -----

// Factors of values and of inputs. In a fused weight, each block is split.
// CHECK-LABEL: module @others
module @others {
  tpc.weight @qkv in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<3 * 4 * 4{tp}>]} : tensor<16x48xf32>
  func.func @main(%x: tensor<4x16xf32> {tpc.name = "x", tpc.sharding = [#tpc.dim<2 * 2{tp}>, #tpc.dim<16>]}, %u: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
    // CHECK: tpc.gelu {{.*}} -> tensor<4x16xf32, #tpc.dist<[2*2{tp}, 16]>>
    %y = tpc.gelu tanh %x : tensor<4x16xf32> -> tensor<4x16xf32>
    // CHECK: tpc.gelu {{.*}} -> tensor<4x16xf32, #tpc.dist<[4, 2*8{tp}]>>
    %v = tpc.gelu tanh %u {tpc.sharding = [unit, #tpc.dim<2 * 8{tp}>]} : tensor<4x16xf32> -> tensor<4x16xf32>
    // CHECK: tpc.parameter @qkv {{.*}} #tpc.dist<[16, 4*4{tp}]>
    %k = tpc.parameter @qkv view <16 [[16 x 48], [16 x 1]]> : tensor<16x16xf32>
    %z = tpc.matmul %u, %k : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
    return %y, %v, %z : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
  }
}
