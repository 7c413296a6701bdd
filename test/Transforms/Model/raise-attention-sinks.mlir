// An additional column of scores without a value: sinks (gpt-oss).
// RUN: tpc-opt %s --tpc-raise-attention --canonicalize --split-input-file -verify-diagnostics | FileCheck %s

!q = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
!k = tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!one = tensor<?x3x?x1xf32, #tpc.dist<[b, 3, s, 1]>>
!all = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, "s + 1"]>>
!square = tensor<1x1x?x?xi64, #tpc.dist<[1, 1, s, s]>>

// The row's maximum is subtracted before the softmax, and the mask adds the lowest float.
// CHECK-LABEL: @maximum
// CHECK: %[[R:.*]] = tpc.reshape %arg3 : tensor<1x3x1x1xf32> -> tensor<3xf32>
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} sinks %[[R]] scale 1.0{{[0e+-]*}} :
func.func @maximum(%q: !q, %k: !k, %v: !q, %sinks: tensor<1x3x1x1xf32>) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %c = tpc.cmp le %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %m = tpc.select %c, %zero, %lowest : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, tensor<f32>, tensor<f32> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %m : !s, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> !s
  %2 = tpc.expand %sinks : tensor<1x3x1x1xf32> -> !one
  %3 = tpc.concat %1, %2 dim 3 : !s, !one -> !all
  %4 = tpc.reduce max %3 [3] keep : !all -> !one
  %5 = tpc.sub %3, %4 : !all, !one -> !all
  %6 = tpc.softmax %5 dim 3 : !all -> !all
  %7 = tpc.slice %6 dim 3 from 0 : !all -> !s
  %8 = tpc.matmul %7, %v : !s, !q -> !q
  return %8 : !q
}

// -----

!q = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
!k = tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!one = tensor<?x3x?x1xf32, #tpc.dist<[b, 3, s, 1]>>
!all = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, "s + 1"]>>

// The column depends on the query; the result does not have the columns of the keys; the first
// column is the sink.
// CHECK-LABEL: @others
// CHECK-NOT: tpc.attention
func.func @others(%q: !q, %k: !k, %v: !q, %each: !one, %sinks: tensor<3x1x1xf32>) -> (!q, !q, !q) {
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %a = tpc.concat %0, %each dim 3 : !s, !one -> !all
  %a1 = tpc.softmax %a dim 3 : !all -> !all
  %a2 = tpc.slice %a1 dim 3 from 0 : !all -> !s
  %a3 = tpc.matmul %a2, %v : !s, !q -> !q
  %one = tpc.expand %sinks : tensor<3x1x1xf32> -> !one
  %b = tpc.concat %0, %one dim 3 : !s, !one -> !all
  %b1 = tpc.softmax %b dim 3 : !all -> !all
  %b2 = tpc.slice %b1 dim 3 from 1 : !all -> !s
  %b3 = tpc.matmul %b2, %v : !s, !q -> !q
  %c = tpc.concat %one, %0 dim 3 : !one, !s -> !all
  %c1 = tpc.softmax %c dim 3 : !all -> !all
  %c2 = tpc.slice %c1 dim 3 from 0 : !all -> !s
  %c3 = tpc.matmul %c2, %v : !s, !q -> !q
  return %a3, %b3, %c3 : !q, !q, !q
}
