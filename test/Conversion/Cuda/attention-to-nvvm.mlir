// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-attention-to-nvvm | FileCheck %s

// Both ops use the same attention variant and share its two kernels, whatever the sequence sizes.
// Kernels read all sizes from the call's struct in device memory. A thread of the tile kernel
// computes 8 rows and 4 keys: 32 products for each element of the head.
// CHECK: tpc.attention
// CHECK: module @kernels
// CHECK-LABEL: llvm.func @attention_f32_64_causal(
// CHECK-SAME: %[[ARGS:[a-z0-9]+]]: !llvm.ptr<1>)
// CHECK-SAME: nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 128>
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> !llvm.ptr<1>
// CHECK: llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: nvvm.barrier
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: math.fma
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK: llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr<1>
// The kernel for few rows loads keys 16 bytes at a time. Its last block combines the partial
// results.
// CHECK-LABEL: llvm.func @attention_f32_64_causal_split(
// CHECK-SAME: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.inline_asm has_side_effects "atom.acq_rel.gpu.global.inc.u32
// CHECK: nvvm.barrier
// CHECK-NOT: llvm.func
module attributes {tpc.target = "cuda"} {
func.func @layer(%q: tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>, %k: tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>>,
                 %v: tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>>) -> tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>> {
  %x = tpc.attention causal %q, %k, %v scale 0.125
    : tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>, tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>>,
      tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>> -> tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>
  %y = tpc.attention causal %x, %k, %v scale 0.25
    : tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>, tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>>,
      tensor<?x?x2x64xf32, #tpc.dist<[b, s, 2, 64]>> -> tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>
  return %y : tensor<?x?x4x64xf32, #tpc.dist<[b, s, 4, 64]>>
}
}

// -----

// Elements of 16 bits are multiplied by tensor cores, and summed in f32. A kernel's name lists the
// variant's features, and its code contains only these. Its tile sizes are an attribute. Heads of 40
// have 3 fragments of 16 columns, with padding, and values of 24 have 4 of 8 columns.
// CHECK-LABEL: llvm.func @attention_f16_40_24_keys_bias_f32_softcap(
// CHECK-SAME: tile = "64 rows x 64 keys, 4 warps, 2 blocks, queries in registers"
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg, %{{.*}}
// CHECK: nvvm.cp.async.wait.group 1
// CHECK: nvvm.barrier
// CHECK-COUNT-3: nvvm.ldmatrix %{{.*}} layout = #nvvm.mma_layout<row>
// CHECK-COUNT-24: nvvm.mma.sync {{.*}} : (vector<2xf16>, vector<2xf16>, f32)
// The loop over keys: copies of the next tile, its scores, softmax and sums of this tile.
// CHECK: nvvm.cp.async.wait.group 0
// CHECK: nvvm.barrier
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-24: nvvm.mma.sync
// CHECK-COUNT-2: nvvm.shfl.sync bfly
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK: llvm.fptrunc %{{.*}} : vector<2xf32> to vector<2xf16>
// CHECK: nvvm.ldmatrix %{{.*}} layout = #nvvm.mma_layout<col>
// CHECK-COUNT-16: nvvm.mma.sync
module attributes {tpc.target = "cuda"} {
func.func @layer(%q: tensor<2x8x4x40xf16>, %v: tensor<2x8x4x24xf16>,
                 %keys: tensor<2x8xi1>, %bias: tensor<1x1x8x8xf32>)
    -> tensor<2x8x4x24xf16> {
  %x = tpc.attention %q, %q, %v key_mask %keys bias %bias scale 0.125 {softcap = 30.0}
    : tensor<2x8x4x40xf16>, tensor<2x8x4x40xf16>,
      tensor<2x8x4x24xf16> key_mask tensor<2x8xi1>
      bias tensor<1x1x8x8xf32> -> tensor<2x8x4x24xf16>
  return %x : tensor<2x8x4x24xf16>
}
}

// -----

module attributes {tpc.target = "cuda"} {
func.func @large(%q: tensor<2x8x4x320xf32>) -> tensor<2x8x4x320xf32> {
  // expected-error @+1 {{has a head size of 320: kernels for GPUs support 1 to 256}}
  %x = tpc.attention %q, %q, %q scale 0.125
    : tensor<2x8x4x320xf32>, tensor<2x8x4x320xf32>,
      tensor<2x8x4x320xf32> -> tensor<2x8x4x320xf32>
  return %x : tensor<2x8x4x320xf32>
}
}

// -----

module attributes {tpc.target = "cuda"} {
func.func @double(%q: tensor<2x8x4x32xf64>) -> tensor<2x8x4x32xf64> {
  // expected-error @+1 {{has elements of 'f64': kernels for GPUs read f32, f16 and bf16}}
  %x = tpc.attention %q, %q, %q scale 0.125
    : tensor<2x8x4x32xf64>, tensor<2x8x4x32xf64>,
      tensor<2x8x4x32xf64> -> tensor<2x8x4x32xf64>
  return %x : tensor<2x8x4x32xf64>
}
}

// -----

module attributes {tpc.target = "cuda"} {
func.func @symbolic(%q: tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>>) -> tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>> {
  // expected-error @+1 {{has a head size of size: kernels for GPUs need one constant size on all ranks}}
  %x = tpc.attention %q, %q, %q scale 0.125
    : tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>>, tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>>,
      tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>> -> tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>>
  return %x : tensor<2x8x4x?xf32, #tpc.dist<[2, 8, 4, size]>>
}
}
