// RUN: tpc-opt %s --tpc-insert-reshards --split-input-file --verify-diagnostics | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  // Both users share one reshard. An op without `tpc.split` runs unsplit.
  // CHECK-LABEL: @shares
  func.func @shares(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
    // CHECK: %[[X:.*]] = tpc.reshard %arg0 : tensor<4x8xf32> -> tensor<4x8xf32, #tpc.dist<[4, 8{tp}]>>
    // CHECK: %[[P:.*]] = tpc.matmul %[[X]], {{.*}} -> tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp}>>
    // CHECK-NEXT: %[[R:.*]] = tpc.reshard %[[P]]
    // CHECK-NEXT: %[[A:.*]] = tpc.exp %[[R]]
    // CHECK-NEXT: %[[B:.*]] = tpc.tanh %[[R]]
    // CHECK-NEXT: return %[[A]], %[[B]]
    %p = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tp}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %a = tpc.exp %p : tensor<4x6xf32> -> tensor<4x6xf32>
    %b = tpc.tanh %p : tensor<4x6xf32> -> tensor<4x6xf32>
    return %a, %b : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // Two partial sums are added before one reduction. A replicated addend is added after it.
  // CHECK-LABEL: @delays
  func.func @delays(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %p = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tp}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %q = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tp}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    // CHECK: %[[S:.*]] = tpc.add {{.*}} -> tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp}>>
    // CHECK-NEXT: %[[R:.*]] = tpc.reshard %[[S]]
    // CHECK-NEXT: tpc.add %[[R]], %arg2
    %s = tpc.add %p, %q : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    %t = tpc.add %s, %y : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    return %t : tensor<4x6xf32>
  }

  // The second matmul's result is larger than its operand, so the operand is reduced first.
  // CHECK-LABEL: @does_not_delay
  func.func @does_not_delay(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x60xf32>) -> tensor<4x60xf32> {
    // CHECK: tpc.matmul
    // CHECK-NEXT: %[[R:.*]] = tpc.reshard
    // CHECK-NEXT: tpc.matmul %[[R]]
    %p = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tp}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %q = tpc.matmul %p, %v : tensor<4x6xf32>, tensor<6x60xf32> -> tensor<4x60xf32>
    return %q : tensor<4x60xf32>
  }

  // Functions return reduced values.
  // CHECK-LABEL: @returns
  func.func @returns(%x: tensor<4x8xf32>) -> tensor<4xf32> {
    // CHECK: %[[S:.*]] = tpc.reduce max {{.*}} -> tensor<4xf32, #tpc.dist<[4], max{tp}>>
    // CHECK-NEXT: %[[R:.*]] = tpc.reshard %[[S]]
    // CHECK-NEXT: return %[[R]] : tensor<4xf32>
    %s = tpc.reduce max %x [1] {tpc.split = [#tpc.dim<4>, #tpc.dim<8{tp}>]} : tensor<4x8xf32> -> tensor<4xf32>
    return %s : tensor<4xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<atoms = [tpx = 2, tpy = 2, dp = 1, pp = 1], views = {tp = [tpx, tpy]}, mb = 1>} {
  // Sums over the same axes, in any order, need no reshard.
  // CHECK-LABEL: @orders
  // CHECK: %[[P:.*]] = tpc.matmul {{.*}} sum{tpx, tpy}>>
  // CHECK: %[[Q:.*]] = tpc.matmul {{.*}} sum{tpy, tpx}>>
  // CHECK-NEXT: %[[S:.*]] = tpc.add %[[P]], %[[Q]]
  // CHECK-NEXT: tpc.reshard %[[S]]
  func.func @orders(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
    %p = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tpx, tpy}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %q = tpc.matmul %x, %w {tpc.split = [#tpc.dim<4>, #tpc.dim<6>, #tpc.dim<8{tpy, tpx}>]} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %s = tpc.add %p, %q : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    return %s : tensor<4x6xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  func.func @whole(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{splits the factor of size 8, which the op needs unsplit}}
    %s = tpc.softmax %x dim 1 {tpc.split = [#tpc.dim<4>, #tpc.dim<8{tp}>]} : tensor<4x8xf32> -> tensor<4x8xf32>
    return %s : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  func.func @count(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{tpc.split has 1 entries, but its sharding rule has 2 factors}}
    %s = tpc.exp %x {tpc.split = [#tpc.dim<4>]} : tensor<4x8xf32> -> tensor<4x8xf32>
    return %s : tensor<4x8xf32>
  }
}

// -----

// A value that an annotation shards is resharded after its op. Users read the resharded value.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  // CHECK-LABEL: @annotated_value
  func.func @annotated_value(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // CHECK: %[[E:.*]] = tpc.exp %{{.*}} : tensor<4x8xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[H:.*]] = tpc.reshard %[[E]] : tensor<4x8xf32> -> tensor<4x8xf32, #tpc.dist<[4, 8{tp}]>>
    // CHECK-NEXT: %[[W:.*]] = tpc.reshard %[[H]]
    // CHECK-NEXT: tpc.softmax %[[W]]
    // CHECK-NOT: tpc.result_split
    %e = tpc.exp %x {tpc.result_split = [#tpc.dim<4>, #tpc.dim<8{tp}>]} : tensor<4x8xf32> -> tensor<4x8xf32>
    %s = tpc.softmax %e dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
    return %s : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  func.func @sizes(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{tpc.result_split must have one #tpc.dim for each dimension of the op's only result, of its size}}
    %e = tpc.exp %x {tpc.result_split = [#tpc.dim<4>, #tpc.dim<9{tp}>]} : tensor<4x8xf32> -> tensor<4x8xf32>
    return %e : tensor<4x8xf32>
  }
}
