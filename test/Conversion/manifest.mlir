// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=told | FileCheck %s

// The manifest, the interface between compiler and runtime (docs/design/executable.md).
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 1, mb = 2>, tpc.source = "/models/m.onnx",
    tpc.constraints = [{expr = #tpc.expr<s>, min = 1 : i64, max = 64 : i64, why = "table t has 64 rows"}]} {
tpc.weight @even in "w.bin" at 128 : tensor<8x6xf32>
tpc.weight @odd in "/elsewhere/w.bin" at 0 : tensor<7xf32>
tpc.weight @half in "w.bin" at 320 : tensor<4x6xf16>

func.func private @first(%x: tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>) -> tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.neg %x : tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>> -> tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>
  return %0 : tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>
}
func.func private @second(%x: tensor<?xf32, #tpc.dist<[7{tp}], local>>) -> tensor<?xf32, #tpc.dist<[7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.neg %x : tensor<?xf32, #tpc.dist<[7{tp}], local>> -> tensor<?xf32, #tpc.dist<[7{tp}], local>>
  return %0 : tensor<?xf32, #tpc.dist<[7{tp}], local>>
}
func.func private @third(%x: tensor<4x6xf16>) -> tensor<4x6xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.neg %x : tensor<4x6xf16> -> tensor<4x6xf16>
  return %0 : tensor<4x6xf16>
}

// CHECK: llvm.mlir.global internal constant @tpc_manifest("
// CHECK-SAME: \22constraints\22:[{\22expr\22:\22s\22,\22max\22:64,\22min\22:1,\22why\22:\22table t has 64 rows\22}]
// Paths are absolute; relative ones refer to the model's folder. Each file is listed once. A file
// that is missing now may exist at run time.
// CHECK-SAME: \22files\22:[{\22path\22:\22/models/w.bin\22},{\22path\22:\22/elsewhere/w.bin\22}]
// CHECK-SAME: \22grid\22:{\22micro_batches\22:2,\22order\22:[\22tp\22,\22dp\22,\22pp\22],\22sequence_parallel\22:false,\22sizes\22:{\22dp\22:3,\22pp\22:1,\22tp\22:2}}
// CHECK-SAME: \22inputs\22:[{\22dtype\22:\22f32\22,\22name\22:\22x\22,\22shape\22:[\22b\22,\22s\22,\228\22]}
// CHECK-SAME: {\22default\22:\22ones\22,\22dtype\22:\22i64\22,\22name\22:\22mask\22,\22shape\22:[\22b\22,\22s\22]}]
// CHECK-SAME: \22name\22:\22told\22
// CHECK-SAME: \22outputs\22:[{\22dtype\22:\22f32\22,\22name\22:\22y\22,\22shape\22:[\22b\22,\22s\22,\228\22]}]
// A view begins at element 6 and has 4 rows of 2 elements, with a stride of 6. The rows are split
// over tp.
// CHECK-SAME: \22bytes\22:192,\22dims\22:{{\[\[}}{\22axes\22:[\22tp\22],\22size\22:4,\22stride\22:6}],[{\22size\22:2,\22stride\22:1}{{\]\]}}
// CHECK-SAME: \22file\22:0,\22init\22:\22normal\22,\22name\22:\22even\22,\22offset\22:128,\22source_shape\22:[8,6],\22stage\22:0,\22use\22:\22dense\22,\22view_offset\22:6
// 7 elements over two ranks: the runtime computes the split.
// CHECK-SAME: \22axes\22:[\22tp\22],\22size\22:7,\22stride\22:1
// CHECK-SAME: \22file\22:1,\22init\22:\22normal\22,\22name\22:\22odd\22,\22offset\22:0
// CHECK-SAME: \22dtype\22:\22f16\22,\22file\22:0,\22init\22:\22normal\22,\22name\22:\22half\22,\22offset\22:320
// CHECK-SAME: \22source\22:\22/models/m.onnx\22,\22symbols\22:[\22b\22,\22s\22]
tpc.pipeline @main(%x: tensor<?x?x8xf32, #tpc.dist<[b, s, 8], local>>, %mask: tensor<?x?xi64, #tpc.dist<[b, s], local>>) inputs [{tpc.name = "x"}, {tpc.name = "mask", tpc.default = #tpc.default<ones>}] outputs [{name = "y", type = tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>}] {
  tpc.stage 0 {
    tpc.micro_batches of #tpc.dim<b> {
      %e = tpc.parameter @even view <6 [[4 x 6], [2 x 1]]> : tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>
      %o = tpc.parameter @odd : tensor<?xf32, #tpc.dist<[7{tp}], local>>
      %h = tpc.parameter @half : tensor<4x6xf16>
      %1 = func.call @first(%e) : (tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>) -> tensor<2x2xf32, #tpc.dist<[4{tp}, 2], local>>
      %2 = func.call @second(%o) : (tensor<?xf32, #tpc.dist<[7{tp}], local>>) -> tensor<?xf32, #tpc.dist<[7{tp}], local>>
      %3 = func.call @third(%h) : (tensor<4x6xf16>) -> tensor<4x6xf16>
      tpc.output 0, %x : tensor<?x?x8xf32, #tpc.dist<[b, s, 8], local>>
    }
  }
}
}
