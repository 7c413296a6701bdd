// RUN: tpc-opt %s | FileCheck %s
// RUN: tpc-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: tpc-opt %s --mlir-print-op-generic | tpc-opt | FileCheck %s

// Equal sizes are one attribute, whatever their spelling, and print in one form.

// CHECK: tpc.constraints = [{expr = #tpc.expr<"b + s">, min = 1 : i64}]
module attributes {tpc.constraints = [{expr = #tpc.expr<"s+1 + b - 1">, min = 1}]} {

// CHECK-LABEL: @sizes
// CHECK-SAME: tpc.default = #tpc.default<ones>
// CHECK-SAME: tpc.default = #tpc.default<positions>}
// CHECK-SAME: tpc.default = #tpc.default<positions after "2*p">
// CHECK-SAME: tpc.default = #tpc.default<positions of "mask">
// A missing past is not printed.
// CHECK-SAME: tpc.default = #tpc.default<positions>}
func.func @sizes(%x: tensor<8x6xf32>, %a: tensor<4xi64> {tpc.default = #tpc.default<ones>},
    %b: tensor<4xi64> {tpc.default = #tpc.default<positions>},
    %c: tensor<4xi64> {tpc.default = #tpc.default<positions after "p + p">},
    %d: tensor<4xi64> {tpc.default = #tpc.default<positions of "mask">},
    %e: tensor<4xi64> {tpc.default = #tpc.default<positions after "p - p">},
    %q: tensor<1x4x4x8xf32>) {
  // CHECK: tpc.slice %{{.*}} dim 0 from 2 :
  // GENERIC: "tpc.slice"(%{{.*}}) <{dim = 0 : i64, start = #tpc.expr<2>, step = 1 : i64}>
  %0 = tpc.slice %x dim 0 from "1+1" : tensor<8x6xf32> -> tensor<4x6xf32>
  // CHECK: tpc.roll %{{.*}} dim 1 from "-s" every 3
  %1 = tpc.roll %x dim 1 from "0 - s" every "9 // 3" : tensor<8x6xf32> -> tensor<8x6xf32>
  // CHECK: tpc.size "min(b, s)"
  %2 = tpc.size "min(s, b)" : tensor<i64>
  // A long text is printed as several adjacent strings.
  // CHECK: tpc.size "floordiv(b + 111111111111111, 2) + floordiv(b + 222222222222222, 2) + " "floordiv(b + 333333333333333, 2)" :
  %7 = tpc.size "(b + 333333333333333) floordiv 2 +" " (b + 222222222222222)" "floordiv 2 + (b + 111111111111111) floordiv 2" : tensor<i64>
  // Default values are not printed.
  // CHECK: tpc.trilu %{{[^ ]*}} :
  // CHECK: tpc.trilu upper %{{[^ ]*}} k "s + 1" :
  %3 = tpc.trilu %x k "1 - 1" : tensor<8x6xf32> -> tensor<8x6xf32>
  %4 = tpc.trilu upper %x k "1 + s" : tensor<8x6xf32> -> tensor<8x6xf32>
  // CHECK: tpc.attention causal %{{.*}} scale {{[^ ]*}} :
  // CHECK: tpc.attention causal %{{.*}} scale {{[^ ]*}} offset p :
  // GENERIC: causal_offset = #tpc.expr<p>
  %5 = tpc.attention causal %q, %q, %q scale 1.0 : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32> -> tensor<1x4x4x8xf32>
  %6 = tpc.attention causal %q, %q, %q scale 1.0 offset "1 * p" : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32> -> tensor<1x4x4x8xf32>
  return
}
}
