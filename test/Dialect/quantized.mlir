// tpc.dequantize: round trip, and errors.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @blocks
func.func @blocks(%w: tensor<6x2x8xui8>, %s: tensor<6x2x1x1xf32>, %z: tensor<6x2x1x1xui8>) {
  // CHECK: tpc.dequantize %{{.*}}, %{{.*}} bits 4 zero 8 : tensor<6x2x8xui8>, tensor<6x2x1x1xf32> -> tensor<6x2x8x2xf32>
  %0 = tpc.dequantize %w, %s bits 4 zero 8 : tensor<6x2x8xui8>, tensor<6x2x1x1xf32> -> tensor<6x2x8x2xf32>
  // CHECK: tpc.dequantize %{{.*}}, %{{.*}}, %{{.*}} bits 2 : tensor<6x2x8xui8>, tensor<6x2x1x1xf32>, tensor<6x2x1x1xui8> -> tensor<6x2x8x4xf32>
  %1 = tpc.dequantize %w, %s, %z bits 2 : tensor<6x2x8xui8>, tensor<6x2x1x1xf32>, tensor<6x2x1x1xui8> -> tensor<6x2x8x4xf32>
  return
}

// -----

// Shards of a rank are whole bytes, and the scales of its blocks.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
// CHECK-LABEL: @sharded
func.func @sharded(%w: tensor<6x2x8xui8, #tpc.dist<[6{tp}, 2, 8]>>,
                   %s: tensor<6x2x1x1xf16, #tpc.dist<[6{tp}, 2, 1, 1]>>) {
  // CHECK: tpc.dequantize
  %0 = tpc.dequantize %w, %s bits 8 : tensor<6x2x8xui8, #tpc.dist<[6{tp}, 2, 8]>>, tensor<6x2x1x1xf16, #tpc.dist<[6{tp}, 2, 1, 1]>> -> tensor<6x2x8x1xf16, #tpc.dist<[6{tp}, 2, 8, 1]>>
  return
}
}

// -----

func.func @bits(%w: tensor<2x8xui8>, %s: tensor<2x1x1xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{dequantize: 3 bits; must be 2, 4 or 8}}
  %0 = tpc.dequantize %w, %s bits 3 : tensor<2x8xui8>, tensor<2x1x1xf32> -> tensor<2x8x2xf32>
  return
}

// -----

func.func @scales(%w: tensor<2x8xui8>, %s: tensor<3x1x1xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{dequantize: [3, 1, 1] does not broadcast to [2, 8, 2]}}
  %0 = tpc.dequantize %w, %s bits 4 : tensor<2x8xui8>, tensor<3x1x1xf32> -> tensor<2x8x2xf32>
  return
}

// -----

func.func @zeros(%w: tensor<2x8xui8>, %s: tensor<f32>, %z: tensor<i8>) {
  // expected-error@+1 {{has zero points of 'i8'; must be 'ui8' or 'f32'}}
  %0 = tpc.dequantize %w, %s, %z bits 4 : tensor<2x8xui8>, tensor<f32>, tensor<i8> -> tensor<2x8x2xf32>
  return
}

// -----

func.func @both(%w: tensor<2x8xui8>, %s: tensor<f32>, %z: tensor<ui8>) {
  // expected-error@+1 {{has both zero points and the zero point 8}}
  %0 = tpc.dequantize %w, %s, %z bits 4 zero 8 : tensor<2x8xui8>, tensor<f32>, tensor<ui8> -> tensor<2x8x2xf32>
  return
}

// -----

func.func @far(%w: tensor<2x8xui8>, %s: tensor<f32>) {
  // expected-error@+1 {{has the zero point 256; must be -128 to 255}}
  %0 = tpc.dequantize %w, %s bits 4 zero 256 : tensor<2x8xui8>, tensor<f32> -> tensor<2x8x2xf32>
  return
}
