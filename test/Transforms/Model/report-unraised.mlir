// RUN: tpc-opt %s --split-input-file --tpc-report-unraised -verify-diagnostics

func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  // expected-remark @below {{softmax is not part of a recognized attention}}
  %0 = tpc.softmax %x dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  // expected-remark @below {{erf is not part of a recognized activation}}
  %1 = tpc.erf %x : tensor<4x8xf32> -> tensor<4x8xf32>
  // expected-remark @below {{mean is not part of a recognized norm}}
  %2 = tpc.reduce mean %x [1] keep : tensor<4x8xf32> -> tensor<4x1xf32>
  %3 = tpc.reduce max %x [1] keep : tensor<4x8xf32> -> tensor<4x1xf32>
  return %0, %1, %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>
}

// -----

// Slow: copying a matrix for each row, and computing all experts for each token.
tpc.weight @up in "w" at 0 : tensor<4x8x8xf32>
func.func @experts(%x: tensor<6x1x8xf32>, %ids: tensor<6xi64>, %y: tensor<4x6x8xf32>, %p: tensor<4x6x1xf32>) -> (tensor<6x1x8xf32>, tensor<6x8xf32>) {
  %up = tpc.parameter @up : tensor<4x8x8xf32>
  // expected-warning @below {{copies a matrix for each row, not part of a recognized mixture of experts; it is computed as separate ops}}
  %w = tpc.gather %up, %ids dim 0 : tensor<4x8x8xf32>, tensor<6xi64> -> tensor<6x8x8xf32>
  %r = tpc.matmul %x, %w : tensor<6x1x8xf32>, tensor<6x8x8xf32> -> tensor<6x1x8xf32>
  // expected-warning @below {{computes all experts for each token, not part of a recognized mixture of experts; it is computed as separate ops}}
  %a = tpc.matmul %y, %up : tensor<4x6x8xf32>, tensor<4x8x8xf32> -> tensor<4x6x8xf32>
  %b = tpc.mul %a, %p : tensor<4x6x8xf32>, tensor<4x6x1xf32> -> tensor<4x6x8xf32>
  %s = tpc.reduce sum %b [0] : tensor<4x6x8xf32> -> tensor<6x8xf32>
  return %r, %s : tensor<6x1x8xf32>, tensor<6x8xf32>
}
