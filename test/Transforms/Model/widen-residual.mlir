// RUN: tpc-opt %s --tpc-widen-residual --cse --split-input-file | FileCheck %s

// Neither the residual's addends nor their sum are rounded. The norm reads the sum in f32, other
// users in its old type. The matmul has an f32 result, and its bias is added in f32.
// CHECK-LABEL: func.func @layers
// CHECK-DAG: %[[E:.*]] = tpc.cast %arg0 : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK-DAG: %[[P:.*]] = tpc.matmul %arg1, %{{.*}} : tensor<4x6xf16>, tensor<6x8xf16> -> tensor<4x8xf32>
// CHECK-DAG: %[[B:.*]] = tpc.cast %{{.*}} : tensor<8xf16> -> tensor<8xf32>
// CHECK: %[[Q:.*]] = tpc.add %[[P]], %[[B]] : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = tpc.add %[[E]], %[[Q]] : tensor<4x8xf32>
// CHECK: %[[N:.*]] = tpc.layer_norm %[[Y]], %{{.*}} bias %{{.*}} epsilon {{.*}} : tensor<4x8xf32>, tensor<8xf16> bias tensor<8xf16> -> tensor<4x8xf16>
// CHECK: %[[U:.*]] = tpc.matmul %[[N]], %{{.*}} : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
// CHECK: %[[G:.*]] = tpc.gelu tanh %[[U]] : tensor<4x6xf16>
// CHECK: %[[D:.*]] = tpc.matmul %[[G]], %{{.*}} : tensor<4x6xf16>, tensor<6x8xf16> -> tensor<4x8xf32>
// CHECK: %[[Z:.*]] = tpc.add %[[Y]], %[[D]] : tensor<4x8xf32>
// CHECK: %[[R:.*]] = tpc.cast %[[Z]] : tensor<4x8xf32> -> tensor<4x8xf16>
// CHECK: %[[M:.*]] = tpc.layer_norm %[[Z]], %{{.*}} : tensor<4x8xf32>, {{.*}} -> tensor<4x8xf16>
// CHECK: return %[[M]], %[[R]]
tpc.weight @w in "/w.bin" at 0 : tensor<6x8xf16>
tpc.weight @u in "/w.bin" at 96 : tensor<8x6xf16>
tpc.weight @s in "/w.bin" at 192 : tensor<8xf16>
func.func @layers(%x: tensor<4x8xf16>, %a: tensor<4x6xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>) {
  %w = tpc.parameter @w : tensor<6x8xf16>
  %u = tpc.parameter @u : tensor<8x6xf16>
  %s = tpc.parameter @s : tensor<8xf16>
  %p = tpc.matmul %a, %w bias %s : tensor<4x6xf16>, tensor<6x8xf16> bias tensor<8xf16> -> tensor<4x8xf16>
  %y = tpc.add %x, %p : tensor<4x8xf16>, tensor<4x8xf16> -> tensor<4x8xf16>
  %n = tpc.layer_norm %y, %s bias %s epsilon 1.0e-5 : tensor<4x8xf16>, tensor<8xf16> bias tensor<8xf16> -> tensor<4x8xf16>
  %f = tpc.matmul %n, %u : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
  %g = tpc.gelu tanh %f : tensor<4x6xf16> -> tensor<4x6xf16>
  %d = tpc.matmul %g, %w : tensor<4x6xf16>, tensor<6x8xf16> -> tensor<4x8xf16>
  %z = tpc.add %y, %d : tensor<4x8xf16>, tensor<4x8xf16> -> tensor<4x8xf16>
  %m = tpc.layer_norm %z, %s bias %s epsilon 1.0e-5 : tensor<4x8xf16>, tensor<8xf16> bias tensor<8xf16> -> tensor<4x8xf16>
  return %m, %z : tensor<4x8xf16>, tensor<4x8xf16>
}

// -----

// Residuals in bf16 with reshapes in between. A matmul of two computed values is cast, and so is
// the sum with a vector. A file that computes norms in f32 already contains the cast of the sum.
// CHECK-LABEL: func.func @shapes
// CHECK-DAG: %[[V:.*]] = tpc.cast %arg0 : tensor<6xbf16> -> tensor<6xf32>
// CHECK-DAG: %[[P:.*]] = tpc.matmul %arg1, %{{.*}} -> tensor<8x6xf32>
// CHECK-DAG: %[[R:.*]] = tpc.reshape %[[P]] : tensor<8x6xf32> -> tensor<2x4x6xf32>
// CHECK-DAG: %[[S:.*]] = tpc.matmul %arg2, %arg3 : tensor<2x4x3xbf16>, tensor<2x3x6xbf16> -> tensor<2x4x6xbf16>
// CHECK-DAG: %[[T:.*]] = tpc.cast %[[S]] : tensor<2x4x6xbf16> -> tensor<2x4x6xf32>
// CHECK: %[[A:.*]] = tpc.add %[[R]], %[[T]] : tensor<2x4x6xf32>
// CHECK: %[[B:.*]] = tpc.add %[[A]], %[[V]] : tensor<2x4x6xf32>, tensor<6xf32>
// CHECK: %[[Q:.*]] = tpc.mul %[[B]], %[[B]] : tensor<2x4x6xf32>
// CHECK: %[[F:.*]] = tpc.reshape %[[B]] : tensor<2x4x6xf32> -> tensor<8x6xf32>
// CHECK: %[[N:.*]] = tpc.rms_norm %[[F]], %{{.*}} : tensor<8x6xf32>, tensor<6xbf16> -> tensor<8x6xbf16>
tpc.weight @w in "/w.bin" at 0 : tensor<5x6xbf16>
tpc.weight @s in "/w.bin" at 96 : tensor<6xbf16>
func.func @shapes(%v: tensor<6xbf16>, %x: tensor<8x5xbf16>, %y: tensor<2x4x3xbf16>, %z: tensor<2x3x6xbf16>) -> (tensor<2x4x6xf32>, tensor<8x6xbf16>) {
  %w = tpc.parameter @w : tensor<5x6xbf16>
  %s = tpc.parameter @s : tensor<6xbf16>
  %p = tpc.matmul %x, %w : tensor<8x5xbf16>, tensor<5x6xbf16> -> tensor<8x6xbf16>
  %r = tpc.reshape %p : tensor<8x6xbf16> -> tensor<2x4x6xbf16>
  %q = tpc.matmul %y, %z : tensor<2x4x3xbf16>, tensor<2x3x6xbf16> -> tensor<2x4x6xbf16>
  %a = tpc.add %r, %q : tensor<2x4x6xbf16>, tensor<2x4x6xbf16> -> tensor<2x4x6xbf16>
  %b = tpc.add %a, %v : tensor<2x4x6xbf16>, tensor<6xbf16> -> tensor<2x4x6xbf16>
  %c = tpc.cast %b : tensor<2x4x6xbf16> -> tensor<2x4x6xf32>
  %d = tpc.mul %c, %c : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %e = tpc.reshape %b : tensor<2x4x6xbf16> -> tensor<8x6xbf16>
  %n = tpc.rms_norm %e, %s epsilon 1.0e-5 : tensor<8x6xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  return %d, %n : tensor<2x4x6xf32>, tensor<8x6xbf16>
}

// -----

// Unchanged: a sum that no norm reads, a norm of a sum with only a vector or another broadcast
// value, and f32 programs.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: tpc.cast
// CHECK-NOT: xf16>{{.*}} -> tensor<{{.*}}xf32>
// CHECK: return
tpc.weight @w in "/w.bin" at 0 : tensor<5x6xf16>
tpc.weight @s in "/w.bin" at 96 : tensor<6xf16>
tpc.weight @t in "/w.bin" at 192 : tensor<6xf32>
func.func @alone(%x: tensor<4x6xf16>, %y: tensor<4x5xf16>, %z: tensor<4x6xf32>, %c: tensor<1x6xf16>) -> (tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf32>, tensor<4x6xf16>) {
  %w = tpc.parameter @w : tensor<5x6xf16>
  %s = tpc.parameter @s : tensor<6xf16>
  %t = tpc.parameter @t : tensor<6xf32>
  %0 = tpc.add %x, %x : tensor<4x6xf16>, tensor<4x6xf16> -> tensor<4x6xf16>
  %1 = tpc.matmul %y, %w bias %s : tensor<4x5xf16>, tensor<5x6xf16> bias tensor<6xf16> -> tensor<4x6xf16>
  %2 = tpc.rms_norm %1, %s epsilon 1.0e-5 : tensor<4x6xf16>, tensor<6xf16> -> tensor<4x6xf16>
  %3 = tpc.add %z, %z : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  %4 = tpc.rms_norm %3, %t epsilon 1.0e-5 : tensor<4x6xf32>, tensor<6xf32> -> tensor<4x6xf32>
  %5 = tpc.add %x, %c : tensor<4x6xf16>, tensor<1x6xf16> -> tensor<4x6xf16>
  %6 = tpc.rms_norm %5, %s epsilon 1.0e-5 : tensor<4x6xf16>, tensor<6xf16> -> tensor<4x6xf16>
  return %0, %2, %4, %6 : tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf32>, tensor<4x6xf16>
}
