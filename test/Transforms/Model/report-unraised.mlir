// RUN: tpc-opt %s --tpc-report-unraised -verify-diagnostics

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
