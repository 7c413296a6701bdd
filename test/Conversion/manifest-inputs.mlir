// RUN: tpc-opt %s --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program | FileCheck %s

// Manifest entries of all kinds of inputs and outputs, of weights whose loaded form differs from
// the stored form, and of skipped verifiers.
!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!h = tensor<?x3xf32, #tpc.dist<[n, 6{tp}], local>>
!w = tensor<8x3xbf16, #tpc.dist<[8, 6{tp}], local>>
!v = tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>>
!u = tensor<3x8xbf16, #tpc.dist<[6{tp}, 8], local>>
!sum = tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>, tpc.not_verified = "by request", tpc.schedule = "0123456789abcdef"} {
tpc.weight @scale in "/m/w.bin" at 0 : tensor<8xf16>
tpc.weight @packed in "/m/./w.bin" at 16 : tensor<8x6xbf16>
tpc.weight @heads in "/m/w.bin" at 112 : tensor<2x4xi8>

func.func private @layer(%x: !x) -> !sum {
  %s = tpc.parameter @scale : tensor<8xf16>
  %w = tpc.parameter @packed : !w
  %c = tpc.cast %s : tensor<8xf16> -> tensor<8xf32>
  %0 = tpc.rms_norm %x, %c epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %l = tpc.cast %w {tpc.loaded} : !w -> !v
  %1 = tpc.matmul %0, %l : !x, !v -> !h
  %u = tpc.parameter @packed view <0 [[6 x 1], [8 x 6]]> : !u
  %2 = tpc.cast %u {tpc.loaded} : !u -> tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
  %3 = tpc.matmul %1, %2 : !h, tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>> -> !sum
  return %3 : !sum
}

func.func private @rest(%x: tensor<4x1x2xi8>, %y: tensor<0x4xi8>) -> (tensor<4x1x2xi8>, tensor<0x4xi8>) {
  %0 = tpc.neg %x : tensor<4x1x2xi8> -> tensor<4x1x2xi8>
  %1 = tpc.neg %y : tensor<0x4xi8> -> tensor<0x4xi8>
  return %0, %1 : tensor<4x1x2xi8>, tensor<0x4xi8>
}

// CHECK: llvm.mlir.global internal constant @tpc_manifest("
// CHECK-SAME: \22constraints\22:[]
// Two spellings of a path are one file.
// CHECK-SAME: \22files\22:[{\22path\22:\22/m/w.bin\22}]
// A reduce-scatter over tp indicates sequence parallelism.
// CHECK-SAME: \22sequence_parallel\22:true
// Inputs without a name get one. Element types have the runtime's names.
// CHECK-SAME: \22inputs\22:[{\22dtype\22:\22f32\22,\22name\22:\22input0\22,\22shape\22:[\22n\22,\228\22]}
// CHECK-SAME: {\22dtype\22:\22bool\22,\22name\22:\22b\22,\22required\22:\22nothing says what it is\22,\22shape\22:[\22n\22]}
// CHECK-SAME: {\22default\22:\22positions\22,\22dtype\22:\22i64\22,\22name\22:\22p\22,\22past\22:\22past\22,\22shape\22:[\22n\22,\22past\22]}
// CHECK-SAME: {\22default\22:\22positions\22,\22dtype\22:\22i32\22,\22mask\22:\22m\22,\22name\22:\22q\22
// CHECK-SAME: {\22default\22:\22ones\22,\22dtype\22:\22u8\22,\22name\22:\22m\22
// CHECK-SAME: \22not_verified\22:\22by request\22
// CHECK-SAME: \22outputs\22:[{\22dtype\22:\22f32\22,\22name\22:\22output0\22,\22shape\22:[\22n\22,\228\22]},{\22dtype\22:\22bf16\22,\22name\22:\22y\22
// A norm's scale is marked: random weights make it ones, even if the program casts it first. A
// dense parameter keeps its type.
// CHECK-SAME: \22bytes\22:16,\22dims\22:{{\[\[}}{\22size\22:8,\22stride\22:1}]],\22dtype\22:\22f16\22,\22file\22:0,\22init\22:\22ones\22,\22name\22:\22scale\22
// Matmuls use f32 weights, whatever the type in the file, here 96 bytes of bf16.
// CHECK-SAME: \22bytes\22:96,\22dims\22:{{\[\[}}{\22size\22:8,\22stride\22:6}],[{\22axes\22:[\22tp\22],\22size\22:6,\22stride\22:1}]],\22dtype\22:\22f32\22,\22file\22:0,\22init\22:\22normal\22,\22name\22:\22packed\22,\22offset\22:16,\22source_dtype\22:\22bf16\22,\22source_shape\22:[8,6],\22stage\22:0,\22use\22:\22matmul_rhs\22
// A transposed view. A dimension of size 1 has a stride of 0. A size of 0 means that the parameter
// is empty.
// CHECK-SAME: \22dims\22:{{\[\[}}{\22size\22:4,\22stride\22:1}],[{\22size\22:1,\22stride\22:0}],[{\22size\22:2,\22stride\22:4}]],\22dtype\22:\22i8\22
// CHECK-SAME: \22dims\22:{{\[\[}}{\22size\22:0,\22stride\22:0}],[{\22size\22:4,\22stride\22:1}]]
// CHECK-SAME: \22schedule\22:\220123456789abcdef\22
// CHECK-SAME: \22symbols\22:[\22n\22,\22past\22]
tpc.pipeline @main(%x: !x, %b: tensor<?xi1, #tpc.dist<[n], local>>, %p: tensor<?x?xi64, #tpc.dist<[n, past], local>>, %q: tensor<?xi32, #tpc.dist<[n], local>>, %m: tensor<?xui8, #tpc.dist<[n], local>>)
    inputs [{}, {tpc.name = "b", tpc.required = "nothing says what it is"}, {tpc.name = "p", tpc.default = #tpc.default<positions after past>},
            {tpc.name = "q", tpc.default = #tpc.default<positions of "m">}, {tpc.name = "m", tpc.default = #tpc.default<ones>}]
    outputs [{type = tensor<?x8xf32, #tpc.dist<[n, 8]>>}, {name = "y", type = tensor<?x6xbf16, #tpc.dist<[n, 6]>>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @layer(%x) : (!x) -> !sum
      %1 = tpc.reduce_scatter %0 over ["tp"] dim 0 : !sum -> tensor<?x8xf32, #tpc.dist<[n{tp}, 8], local>>
      tpc.output 0, %1 : tensor<?x8xf32, #tpc.dist<[n{tp}, 8], local>>
      %r = tpc.parameter @heads view <0 [[4 x 1], [], [2 x 4]]> : tensor<4x1x2xi8>
      %e = tpc.parameter @heads view <0 [[0 x 4], [4 x 1]]> : tensor<0x4xi8>
      func.call @rest(%r, %e) : (tensor<4x1x2xi8>, tensor<0x4xi8>) -> (tensor<4x1x2xi8>, tensor<0x4xi8>)
    }
  }
}
}
