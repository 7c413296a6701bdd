// Sequences of reshards preserve the value: uneven sizes, empty shards, factors that become split
// inside of others, several axes. Partial sums are results of matmuls over a split dimension.
// DEFINE: %{evaluate} = --tpc-evaluate=shape=b=3,s=5
// RUN: tpc-opt %s %{evaluate} --tpc-lower-reshards=allow-reshard %{evaluate} --tpc-localize %{evaluate} --cse %{evaluate} -o %t.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.mlir

// CHECK-COUNT-12: is the same

// IR-NOT: tpc.reshard
// IR: tpc.exchange
// IR: tpc.reduce_scatter

module attributes {tpc.mesh = #tpc.mesh<tp = 3, cp = 2, dp = 2, pp = 1, mb = 1>} {
  func.func @main(%x: tensor<7x10xf32>, %y: tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>, %z: tensor<2x40x6xf32>)
      -> (tensor<7x10xf32>, tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>, tensor<2x40x6xf32>, tensor<7x7xf32, #tpc.dist<[7, 7{cp, tp}]>>) {
    %x0 = tpc.reshard %x : tensor<7x10xf32> -> tensor<7x10xf32, #tpc.dist<[7{tp, cp}, 10]>>
    %x1 = tpc.reshard %x0 : tensor<7x10xf32, #tpc.dist<[7{tp, cp}, 10]>> -> tensor<7x10xf32, #tpc.dist<[7, 10{cp, tp}]>>
    %x2 = tpc.reshard %x1 : tensor<7x10xf32, #tpc.dist<[7, 10{cp, tp}]>> -> tensor<7x10xf32, #tpc.dist<[7{cp}, 10{tp}]>>
    %x3 = tpc.reshard %x2 : tensor<7x10xf32, #tpc.dist<[7{cp}, 10{tp}]>> -> tensor<7x10xf32, #tpc.dist<[7{tp}, 10]>>
    %x4 = tpc.reshard %x3 : tensor<7x10xf32, #tpc.dist<[7{tp}, 10]>> -> tensor<7x10xf32, #tpc.dist<[7{cp}, 10{dp}]>>
    %x5 = tpc.reshard %x4 : tensor<7x10xf32, #tpc.dist<[7{cp}, 10{dp}]>> -> tensor<7x10xf32>

    %y0 = tpc.reshard %y : tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>> -> tensor<?x?x4xf32, #tpc.dist<[b{dp}, s, 4]>>
    %y1 = tpc.reshard %y0 : tensor<?x?x4xf32, #tpc.dist<[b{dp}, s, 4]>> -> tensor<?x?x4xf32, #tpc.dist<[b{dp}, s{tp}, 4{cp}]>>
    %y2 = tpc.reshard %y1 : tensor<?x?x4xf32, #tpc.dist<[b{dp}, s{tp}, 4{cp}]>> -> tensor<?x?x4xf32, #tpc.dist<[b, s{dp, tp}, 4]>>
    %y3 = tpc.reshard %y2 : tensor<?x?x4xf32, #tpc.dist<[b, s{dp, tp}, 4]>> -> tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>

    %z0 = tpc.reshard %z : tensor<2x40x6xf32> -> tensor<2x40x6xf32, #tpc.dist<[2{dp}, 40{tp}, 6]>>
    %z1 = tpc.reshard %z0 : tensor<2x40x6xf32, #tpc.dist<[2{dp}, 40{tp}, 6]>> -> tensor<2x40x6xf32, #tpc.dist<[2{dp}, 5{tp}*8, 6]>>
    %z2 = tpc.reshard %z1 : tensor<2x40x6xf32, #tpc.dist<[2{dp}, 5{tp}*8, 6]>> -> tensor<2x40x6xf32, #tpc.dist<[2, (5{cp}*8){tp}, 6{dp}]>>
    %z3 = tpc.reshard %z2 : tensor<2x40x6xf32, #tpc.dist<[2, (5{cp}*8){tp}, 6{dp}]>> -> tensor<2x40x6xf32>

    %a = tpc.reshard %x : tensor<7x10xf32> -> tensor<7x10xf32, #tpc.dist<[7, 10{tp, cp}]>>
    %b = tpc.transpose %a [1, 0] : tensor<7x10xf32, #tpc.dist<[7, 10{tp, cp}]>> -> tensor<10x7xf32, #tpc.dist<[10{tp, cp}, 7]>>
    %p = tpc.matmul %a, %b : tensor<7x10xf32, #tpc.dist<[7, 10{tp, cp}]>>, tensor<10x7xf32, #tpc.dist<[10{tp, cp}, 7]>> -> tensor<7x7xf32, #tpc.dist<[7, 7], sum{tp, cp}>>
    %p0 = tpc.reshard %p : tensor<7x7xf32, #tpc.dist<[7, 7], sum{tp, cp}>> -> tensor<7x7xf32, #tpc.dist<[7{dp}, 7{cp}], sum{tp}>>
    %p1 = tpc.reshard %p0 : tensor<7x7xf32, #tpc.dist<[7{dp}, 7{cp}], sum{tp}>> -> tensor<7x7xf32, #tpc.dist<[7, 7{cp, tp}]>>
    return %x5, %y3, %z3, %p1 : tensor<7x10xf32>, tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>, tensor<2x40x6xf32>, tensor<7x7xf32, #tpc.dist<[7, 7{cp, tp}]>>
  }
}
