// RUN: tpc-opt %s --tpc-print-factor-classes -o /dev/null | FileCheck %s

// The reshape divides the factors of tokens and of the inner width wherever they occur, also across
// the call. The dimensions of attention are factors already.
// CHECK-LABEL: @layer
// CHECK-NEXT: argument: [#0=b #1=s!] [#2=5 #3=8!]
// CHECK-NEXT: tpc.reshape: [#0=b] [#1=s!] [#2=5] [#3=8!]
// CHECK: tpc.attention: [#0=b] [#1=s!] [#2=5] [#3=8!]
func.func private @layer(%x: tensor<?x40xf32, #tpc.dist<[b*s, 40]>>) -> tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>> {
  %h = tpc.reshape %x : tensor<?x40xf32, #tpc.dist<[b*s, 40]>> -> tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>
  %a = tpc.attention %h, %h, %h scale 1.0 : tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>, tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>, tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>> -> tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>
  return %a : tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>
}

// CHECK-LABEL: @main
// CHECK-NEXT: argument: [#0=b #1=s!] [#4=16]
// CHECK-NEXT: argument: [#4=16] [#2=5 #3=8!]
// CHECK-NEXT: tpc.matmul: [#0=b #1=s!] [#2=5 #3=8!]
// CHECK-NEXT: func.call: [#0=b] [#1=s!] [#2=5] [#3=8!]
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[b*s, 16]>>, %w: tensor<16x40xf32>) -> tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>> {
  %y = tpc.matmul %x, %w : tensor<?x16xf32, #tpc.dist<[b*s, 16]>>, tensor<16x40xf32> -> tensor<?x40xf32, #tpc.dist<[b*s, 40]>>
  %z = call @layer(%y) : (tensor<?x40xf32, #tpc.dist<[b*s, 40]>>) -> tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>
  return %z : tensor<?x?x5x8xf32, #tpc.dist<[b, s, 5, 8]>>
}

// 5 * 8 and 8 * 5 have no common factors, so the dimension is whole. Size 1 has no class.
// CHECK-LABEL: @misfit
// CHECK-NEXT: argument: [#[[A:.*]]=5! #[[B:.*]]=8!] []
// CHECK-NEXT: tpc.reshape: [#[[A]]=5!] [#[[B]]=8!]
// CHECK-NEXT: tpc.reshape: [#{{.*}}=8!] [#{{.*}}=5!]
func.func private @misfit(%x: tensor<40x1xf32>) -> (tensor<5x8xf32>, tensor<8x5xf32>) {
  %a = tpc.reshape %x : tensor<40x1xf32> -> tensor<5x8xf32>
  %b = tpc.reshape %x : tensor<40x1xf32> -> tensor<8x5xf32>
  return %a, %b : tensor<5x8xf32>, tensor<8x5xf32>
}

// The reshape moves 3 across 4, so both are whole. The factors before and after them can be split.
// CHECK-LABEL: @part
// CHECK-NEXT: argument: [#[[B:.*]]=b] [#{{.*}}=4!] [#{{.*}}=3!] [#[[W:.*]]=7]
// CHECK-NEXT: tpc.reshape: [#[[B]]=b #{{.*}}=3!] [#{{.*}}=4!] [#[[W]]=7]
func.func private @part(%x: tensor<?x4x3x7xf32, #tpc.dist<[b, 4, 3, 7]>>) -> tensor<?x4x7xf32, #tpc.dist<[b * 3, 4, 7]>> {
  %a = tpc.reshape %x : tensor<?x4x3x7xf32, #tpc.dist<[b, 4, 3, 7]>> -> tensor<?x4x7xf32, #tpc.dist<[b * 3, 4, 7]>>
  return %a : tensor<?x4x7xf32, #tpc.dist<[b * 3, 4, 7]>>
}

// On both sides, the product of sizes is equal after 6 * 2 and 2 * 6, and after 4 * 9 and 6 * 6.
// CHECK-LABEL: @groups
// CHECK-NEXT: argument: [#[[A:.*]]=2 #[[C:.*]]=3] [#[[D:.*]]=2] [#{{.*}}=4!] [#{{.*}}=9!] [#[[S:.*]]=s]
// CHECK-NEXT: tpc.reshape: [#[[A]]=2] [#[[C]]=3 #[[D]]=2] [#{{.*}}=6!] [#{{.*}}=6! #[[S]]=s]
func.func private @groups(%x: tensor<6x2x4x9x?xf32, #tpc.dist<[6, 2, 4, 9, s]>>) -> tensor<2x6x6x?xf32, #tpc.dist<[2, 6, 6, 6 * s]>> {
  %a = tpc.reshape %x : tensor<6x2x4x9x?xf32, #tpc.dist<[6, 2, 4, 9, s]>> -> tensor<2x6x6x?xf32, #tpc.dist<[2, 6, 6, 6 * s]>>
  return %a : tensor<2x6x6x?xf32, #tpc.dist<[2, 6, 6, 6 * s]>>
}
