// RUN: tpc-opt %s --tpc-raise-norms | FileCheck %s

!x = tensor<?x8xf32, #tpc.dist<[n, 8]>>
!m = tensor<?x1xf32, #tpc.dist<[n, 1]>>
tpc.weight @g in "w.bin" at 0 : tensor<8xf32>
tpc.weight @b in "w.bin" at 32 : tensor<8xf32>

// CHECK-LABEL: @layer_norm
// CHECK: %[[R:.*]] = tpc.layer_norm %arg0, %{{.*}} bias %{{.*}} epsilon 9.99{{.*}}E-6
// CHECK-NEXT: return %[[R]]
func.func @layer_norm(%x: !x) -> !x {
  %g = tpc.parameter @g : tensor<8xf32>
  %b = tpc.parameter @b : tensor<8xf32>
  %eps = tpc.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %m = tpc.reduce mean %x [1] keep : !x -> !m
  %d = tpc.sub %x, %m : !x, !m -> !x
  %q = tpc.mul %d, %d : !x, !x -> !x
  %v = tpc.reduce mean %q [1] keep : !x -> !m
  %a = tpc.add %v, %eps : !m, tensor<f32> -> !m
  %s = tpc.sqrt %a : !m -> !m
  %n = tpc.div %d, %s : !x, !m -> !x
  %h = tpc.mul %n, %g : !x, tensor<8xf32> -> !x
  %r = tpc.add %b, %h : tensor<8xf32>, !x -> !x
  return %r : !x
}

// The norm has sums instead of means, the variance is (mean x^2) - (mean x)^2, and 1/sqrt is
// multiplied.
// CHECK-LABEL: @other_decomposition
// CHECK: %[[R:.*]] = tpc.layer_norm %arg0, %{{.*}} epsilon
// CHECK-NEXT: return %[[R]]
func.func @other_decomposition(%x: !x) -> !x {
  %g = tpc.parameter @g : tensor<8xf32>
  %eps = tpc.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %eight = tpc.constant dense<8.0> : tensor<f32> : tensor<f32>
  %t = tpc.reduce sum %x [1] keep : !x -> !m
  %m = tpc.div %t, %eight : !m, tensor<f32> -> !m
  %d = tpc.sub %x, %m : !x, !m -> !x
  %xx = tpc.mul %x, %x : !x, !x -> !x
  %q = tpc.reduce mean %xx [1] keep : !x -> !m
  %mm = tpc.mul %m, %m : !m, !m -> !m
  %v = tpc.sub %q, %mm : !m, !m -> !m
  %a = tpc.add %eps, %v : tensor<f32>, !m -> !m
  %s = tpc.rsqrt %a : !m -> !m
  %w = tpc.mul %s, %g : !m, tensor<8xf32> -> !x
  %r = tpc.mul %d, %w : !x, !x -> !x
  return %r : !x
}

// CHECK-LABEL: @rms_norm
// CHECK: %[[R:.*]] = tpc.rms_norm %arg0, %{{.*}} epsilon 9.9{{.*}}E-7
// CHECK-NEXT: return %[[R]]
func.func @rms_norm(%x: !x) -> !x {
  %g = tpc.parameter @g : tensor<8xf32>
  %eps = tpc.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %q = tpc.mul %x, %x : !x, !x -> !x
  %v = tpc.reduce mean %q [1] keep : !x -> !m
  %a = tpc.add %v, %eps : !m, tensor<f32> -> !m
  %s = tpc.sqrt %a : !m -> !m
  %i = tpc.reciprocal %s : !m -> !m
  %n = tpc.mul %x, %i : !x, !m -> !x
  %r = tpc.mul %g, %n : tensor<8xf32>, !x -> !x
  return %r : !x
}

// A norm without scale gets a vector of ones.
// CHECK-LABEL: @plain
// CHECK: %[[ONE:.*]] = tpc.constant dense<1.0{{.*}}> : tensor<8xf32>
// CHECK: tpc.rms_norm %arg0, %[[ONE]]
func.func @plain(%x: !x) -> !x {
  %eps = tpc.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %q = tpc.mul %x, %x : !x, !x -> !x
  %v = tpc.reduce mean %q [1] keep : !x -> !m
  %a = tpc.add %v, %eps : !m, tensor<f32> -> !m
  %s = tpc.rsqrt %a : !m -> !m
  %n = tpc.mul %x, %s : !x, !m -> !x
  return %n : !x
}

// Not norms: the variance is that of another value; the mean is over rows.
// CHECK-LABEL: @no_norm
// CHECK-NOT: _norm
func.func @no_norm(%x: !x, %y: !x, %z: tensor<4x8xf32>) -> (!x, tensor<4x8xf32>) {
  %eps = tpc.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %q = tpc.mul %y, %y : !x, !x -> !x
  %v = tpc.reduce mean %q [1] keep : !x -> !m
  %a = tpc.add %v, %eps : !m, tensor<f32> -> !m
  %s = tpc.sqrt %a : !m -> !m
  %n = tpc.div %x, %s : !x, !m -> !x
  %q1 = tpc.mul %z, %z : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %v1 = tpc.reduce mean %q1 [0] keep : tensor<4x8xf32> -> tensor<1x8xf32>
  %a1 = tpc.add %v1, %eps : tensor<1x8xf32>, tensor<f32> -> tensor<1x8xf32>
  %s1 = tpc.sqrt %a1 : tensor<1x8xf32> -> tensor<1x8xf32>
  %n1 = tpc.div %z, %s1 : tensor<4x8xf32>, tensor<1x8xf32> -> tensor<4x8xf32>
  return %n, %n1 : !x, tensor<4x8xf32>
}

// A later factor or addend that is computed from an input is not the norm's scale or bias.
// CHECK-LABEL: @activation_as_scale
// CHECK: %[[N:.*]] = tpc.layer_norm %arg0
// CHECK: tpc.mul %[[N]], %arg1
func.func @activation_as_scale(%x: !x, %y: !x) -> !x {
  %eps = tpc.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %m = tpc.reduce mean %x [1] keep : !x -> !m
  %d = tpc.sub %x, %m : !x, !m -> !x
  %q = tpc.mul %d, %d : !x, !x -> !x
  %v = tpc.reduce mean %q [1] keep : !x -> !m
  %a = tpc.add %v, %eps : !m, tensor<f32> -> !m
  %s = tpc.sqrt %a : !m -> !m
  %n = tpc.div %d, %s : !x, !m -> !x
  %r = tpc.mul %n, %y : !x, !x -> !x
  return %r : !x
}
