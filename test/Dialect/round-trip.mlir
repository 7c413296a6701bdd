// Every op and attribute is printed as it was parsed.
// RUN: tpc-opt %s | FileCheck %s
// RUN: tpc-opt %s | tpc-opt | FileCheck %s
// RUN: tpc-opt %s --mlir-print-op-generic | tpc-opt | FileCheck %s

!tokens = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!bs = tensor<?x?xi64, #tpc.dist<[b, s]>>
!heads = tensor<?x?x4x2xf32, #tpc.dist<[b, s, 4, 2]>>
!whole = tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8], local>>
!partial = tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8], sum{tp}, local>>
!rows = tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8], local>>
!columns = tensor<?x4xf32, #tpc.dist<[b{dp}*s, 8{tp}], local>>
!order = tensor<4xf32, #tpc.dist<[16{tp, dp}], local>>

// CHECK: module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 4>}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 4>} {

// CHECK: tpc.weight @w in "m.data" at 64 : tensor<8x24xf32>
tpc.weight @w in "m.data" at 64 : tensor<8x24xf32>

// CHECK-LABEL: @program
func.func @program() {
  // CHECK: tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.parameter @w : tensor<8x24xf32>
  // CHECK: tpc.parameter @w view <8 {{\[\[}}8 x 24], [4 x 2, 2 x 1]]> : tensor<8x8xf32>
  %1 = tpc.parameter @w view <8 [[8 x 24], [4 x 2, 2 x 1]]> : tensor<8x8xf32>
  // CHECK: tpc.constant dense<1> : tensor<2xi64> : tensor<2xi64>
  %2 = tpc.constant dense<1> : tensor<2xi64> : tensor<2xi64>
  // CHECK: tpc.annotation %{{.*}} "w" {sharding = [#tpc.dim<8>, unit], source = "a.txt:1:1", stage = 1 : i64} : tensor<8x8xf32>
  tpc.annotation %1 "w" {sharding = [#tpc.dim<8>, unit], source = "a.txt:1:1", stage = 1} : tensor<8x8xf32>
  return
}

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: !tokens, %c: tensor<8xf32>, %i: !bs) {
  // CHECK: tpc.neg %{{.*}} : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
  %0 = tpc.neg %x : !tokens -> !tokens
  // CHECK: tpc.abs
  %1 = tpc.abs %x : !tokens -> !tokens
  // CHECK: tpc.exp
  %2 = tpc.exp %x : !tokens -> !tokens
  // CHECK: tpc.log
  %3 = tpc.log %x : !tokens -> !tokens
  // CHECK: tpc.sqrt
  %4 = tpc.sqrt %x : !tokens -> !tokens
  // CHECK: tpc.rsqrt
  %5 = tpc.rsqrt %x : !tokens -> !tokens
  // CHECK: tpc.reciprocal
  %6 = tpc.reciprocal %x : !tokens -> !tokens
  // CHECK: tpc.tanh
  %7 = tpc.tanh %x : !tokens -> !tokens
  // CHECK: tpc.erf
  %8 = tpc.erf %x : !tokens -> !tokens
  // CHECK: tpc.sigmoid
  %9 = tpc.sigmoid %x : !tokens -> !tokens
  // CHECK: tpc.relu
  %10 = tpc.relu %x : !tokens -> !tokens
  // CHECK: tpc.sin
  %11 = tpc.sin %x : !tokens -> !tokens
  // CHECK: tpc.cos
  %12 = tpc.cos %x : !tokens -> !tokens
  // CHECK: tpc.floor
  %13 = tpc.floor %x : !tokens -> !tokens
  // CHECK: tpc.ceil
  %14 = tpc.ceil %x : !tokens -> !tokens
  // CHECK: tpc.round
  %round = tpc.round %x : !tokens -> !tokens
  // CHECK: tpc.silu
  %15 = tpc.silu %x : !tokens -> !tokens
  // CHECK: tpc.gelu none
  %16 = tpc.gelu none %x : !tokens -> !tokens
  // CHECK: tpc.gelu tanh
  %17 = tpc.gelu tanh %x : !tokens -> !tokens
  // CHECK: tpc.is_nan
  %18 = tpc.is_nan %x : !tokens -> tensor<?x8xi1, #tpc.dist<[b*s, 8]>>
  // CHECK: tpc.not
  %19 = tpc.not %18 : tensor<?x8xi1, #tpc.dist<[b*s, 8]>> -> tensor<?x8xi1, #tpc.dist<[b*s, 8]>>
  // CHECK: tpc.cast
  %20 = tpc.cast %i : !bs -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  // A row broadcasts.
  // CHECK: tpc.add %{{.*}}, %{{.*}} : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
  %21 = tpc.add %x, %c : !tokens, tensor<8xf32> -> !tokens
  // CHECK: tpc.sub
  %22 = tpc.sub %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.mul
  %23 = tpc.mul %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.div
  %24 = tpc.div %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.pow
  %25 = tpc.pow %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.max
  %26 = tpc.max %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.min
  %27 = tpc.min %x, %x : !tokens, !tokens -> !tokens
  // CHECK: tpc.mod
  %28 = tpc.mod %i, %i : !bs, !bs -> !bs
  // CHECK: tpc.cmp le
  %29 = tpc.cmp le %i, %i : !bs, !bs -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  // CHECK: tpc.and
  %30 = tpc.and %29, %29 : tensor<?x?xi1, #tpc.dist<[b, s]>>, tensor<?x?xi1, #tpc.dist<[b, s]>> -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  // CHECK: tpc.or
  %31 = tpc.or %29, %29 : tensor<?x?xi1, #tpc.dist<[b, s]>>, tensor<?x?xi1, #tpc.dist<[b, s]>> -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  // CHECK: tpc.xor
  %32 = tpc.xor %29, %29 : tensor<?x?xi1, #tpc.dist<[b, s]>>, tensor<?x?xi1, #tpc.dist<[b, s]>> -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  // CHECK: tpc.select
  %33 = tpc.select %18, %x, %x : tensor<?x8xi1, #tpc.dist<[b*s, 8]>>, !tokens, !tokens -> !tokens
  return
}

// CHECK-LABEL: @shapes
func.func @shapes(%x: !tokens, %i: !bs, %m: tensor<?x?xf32, #tpc.dist<[s, s]>>) {
  // CHECK: tpc.reshape %{{.*}} -> tensor<?x?x4x2xf32, #tpc.dist<[b, s, 4, 2]>>
  %0 = tpc.reshape %x : !tokens -> !heads
  // CHECK: tpc.transpose %{{.*}} [0, 2, 1, 3]
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !heads -> tensor<?x4x?x2xf32, #tpc.dist<[b, 4, s, 2]>>
  // CHECK: tpc.iota dim 1
  %2 = tpc.iota dim 1 : tensor<1x?xi64, #tpc.dist<[1, s]>>
  // CHECK: tpc.expand
  %3 = tpc.expand %2 : tensor<1x?xi64, #tpc.dist<[1, s]>> -> !bs
  // CHECK: tpc.slice %{{.*}} dim 1 from 2 :
  %4 = tpc.slice %x dim 1 from 2 : !tokens -> tensor<?x4xf32, #tpc.dist<[b*s, 4]>>
  // CHECK: tpc.slice %{{.*}} dim 1 from 7 step -1
  %5 = tpc.slice %x dim 1 from 7 step -1 : !tokens -> !tokens
  // CHECK: tpc.roll %{{.*}} dim 0 from "s - 2" every s
  %r = tpc.roll %x dim 0 from "s - 2" every s : !tokens -> !tokens
  // CHECK: tpc.concat %{{.*}}, %{{.*}} dim 1
  %6 = tpc.concat %i, %3 dim 1 : !bs, !bs -> tensor<?x?xi64, #tpc.dist<[b, 2*s]>>
  // CHECK: tpc.size "b*s + 1" : tensor<i64>
  %7 = tpc.size "b*s + 1" : tensor<i64>
  // CHECK: tpc.gather %{{.*}}, %{{.*}} dim 1
  %8 = tpc.gather %x, %i dim 1 : !tokens, !bs -> tensor<?x?x?xf32, #tpc.dist<[b*s, b, s]>>
  // CHECK: tpc.gather_nd
  %9 = tpc.constant dense<0> : tensor<3x2xi64> : tensor<3x2xi64>
  %10 = tpc.gather_nd %i, %9 : !bs, tensor<3x2xi64> -> tensor<3xi64>
  // CHECK: tpc.cumsum %{{.*}} dim 1 exclusive reverse
  %11 = tpc.cumsum %i dim 1 exclusive reverse : !bs -> !bs
  // CHECK: tpc.trilu upper %{{.*}} k 1
  %12 = tpc.trilu upper %m k 1 : tensor<?x?xf32, #tpc.dist<[s, s]>> -> tensor<?x?xf32, #tpc.dist<[s, s]>>
  return
}

// CHECK-LABEL: @model
func.func @model(%x: !tokens, %w: tensor<8x16xf32>, %v: tensor<8xf32>, %v2: tensor<16xf32>, %q: !heads, %k: tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>,
                 %pad: tensor<?x?xi1, #tpc.dist<[b, s]>>, %mask: tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, %bias: tensor<?x4x?x?xf32, #tpc.dist<[b, 4, s, s]>>,
                 %ids: !bs, %cos: tensor<1x?x1xf32, #tpc.dist<[1, s, 1]>>, %slopes: tensor<4xf32>) {
  // CHECK: tpc.matmul %{{.*}}, %{{.*}} bias %{{.*}} :
  %0 = tpc.matmul %x, %w bias %v2 : !tokens, tensor<8x16xf32> bias tensor<16xf32> -> tensor<?x16xf32, #tpc.dist<[b*s, 16]>>
  // CHECK: tpc.attention causal %{{.*}} key_mask %{{.*}} mask %{{.*}} bias %{{.*}} scale 5.000000e-01 {masked_row = 1 : i32}
  %1 = tpc.attention causal %q, %k, %k key_mask %pad mask %mask bias %bias scale 0.5 {masked_row = 1 : i32}
    : !heads, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
      key_mask tensor<?x?xi1, #tpc.dist<[b, s]>> mask tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>> bias tensor<?x4x?x?xf32, #tpc.dist<[b, 4, s, s]>> -> !heads
  // CHECK: tpc.attention %{{.*}} bias %{{.*}} slopes %{{.*}} sinks %{{.*}} scale 1.000000e+00 offset p window 4 :
  // CHECK-SAME: bias tensor<?x4x?x?xf32, #tpc.dist<[b, 4, s, s]>> slopes tensor<4xf32> sinks tensor<4xf32> ->
  %window = tpc.attention %q, %k, %k bias %bias slopes %slopes sinks %slopes scale 1.0 offset "p" window "4"
    : !heads, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
      bias tensor<?x4x?x?xf32, #tpc.dist<[b, 4, s, s]>> slopes tensor<4xf32> sinks tensor<4xf32> -> !heads
  // CHECK: tpc.attention_grad 1 causal %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} key_mask %{{.*}} mask %{{.*}} bias %{{.*}} slopes %{{.*}} scale 5.000000e-01 offset p window 4 uniform_rows {softcap = 2.000000e+00 : f64}
  %grad = tpc.attention_grad 1 causal %q, %k, %k, %q key_mask %pad mask %mask bias %bias slopes %slopes scale 0.5 offset "p" window "4" uniform_rows {softcap = 2.0}
    : !heads, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>, !heads
      key_mask tensor<?x?xi1, #tpc.dist<[b, s]>> mask tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>> bias tensor<?x4x?x?xf32, #tpc.dist<[b, 4, s, s]>> slopes tensor<4xf32>
    -> tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
  // CHECK: tpc.layer_norm %{{.*}}, %{{.*}} bias %{{.*}} epsilon 1.000000e-05
  %2 = tpc.layer_norm %x, %v bias %v epsilon 1.0e-5 : !tokens, tensor<8xf32> bias tensor<8xf32> -> !tokens
  // CHECK: tpc.rms_norm
  %3 = tpc.rms_norm %x, %v epsilon 1.0e-6 : !tokens, tensor<8xf32> -> !tokens
  // CHECK: tpc.softmax %{{.*}} dim 1
  %4 = tpc.softmax %x dim 1 : !tokens -> !tokens
  // CHECK: tpc.embedding
  %5 = tpc.embedding %w, %ids : tensor<8x16xf32>, !bs -> tensor<?x?x16xf32, #tpc.dist<[b, s, 16]>>
  // CHECK: tpc.scatter_add %{{.*}}, %{{.*}} : tensor<?x?x16xf32, {{.*}}>, tensor<?x?xi64, {{.*}}> -> tensor<8x16xf32>
  %scattered = tpc.scatter_add %5, %ids : tensor<?x?x16xf32, #tpc.dist<[b, s, 16]>>, !bs -> tensor<8x16xf32>
  // CHECK: tpc.rotary interleaved
  %6 = tpc.rotary interleaved %q, %cos, %cos : !heads, tensor<1x?x1xf32, #tpc.dist<[1, s, 1]>>, tensor<1x?x1xf32, #tpc.dist<[1, s, 1]>> -> !heads
  // CHECK: tpc.reduce mean %{{.*}} [1] keep
  %7 = tpc.reduce mean %x [1] keep : !tokens -> tensor<?x1xf32, #tpc.dist<[b*s, 1]>>
  return
}

// CHECK-LABEL: @sharded
func.func @sharded(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8], sum{tp}>>) {
  // CHECK: tpc.reshard %{{.*}} : tensor<?x8xf32, #tpc.dist<[b*s, 8], sum{tp}>> -> tensor<?x8xf32, #tpc.dist<[(b*s){tp}, 8]>>
  %0 = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[b*s, 8], sum{tp}>> -> tensor<?x8xf32, #tpc.dist<[(b*s){tp}, 8]>>
  return
}

// CHECK-LABEL: @spmd
func.func @spmd(%p: !partial, %r: !rows, %w: !whole, %o: !order) {
  // CHECK: tpc.all_reduce %{{.*}} over ["tp"] : tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8], sum{tp}, local>>
  %0 = tpc.all_reduce %p over ["tp"] : !partial -> !whole
  // CHECK: tpc.reduce_scatter %{{.*}} over ["tp"] dim 0
  %1 = tpc.reduce_scatter %p over ["tp"] dim 0 : !partial -> !rows
  // CHECK: tpc.all_gather %{{.*}} over ["tp"] dim 0
  %2 = tpc.all_gather %r over ["tp"] dim 0 : !rows -> !whole
  // CHECK: tpc.all_to_all %{{.*}} over ["tp"] from 0 to 1
  %3 = tpc.all_to_all %r over ["tp"] from 0 to 1 : !rows -> !columns
  // CHECK: tpc.collective_permute %{{.*}} over ["tp"] dim 0 from 1 every s
  %6 = tpc.collective_permute %r over ["tp"] dim 0 from 1 every s : !rows -> !rows
  // CHECK: tpc.collective_permute %{{.*}} over ["tp", "dp"] dim 0 : tensor<4xf32, #tpc.dist<[16{tp, dp}], local>> -> tensor<4xf32, #tpc.dist<[16{dp, tp}], local>>
  %7 = tpc.collective_permute %o over ["tp", "dp"] dim 0 : !order -> tensor<4xf32, #tpc.dist<[16{dp, tp}], local>>
  // CHECK: tpc.exchange %{{.*}} over ["tp", "dp"] : tensor<4xf32, #tpc.dist<[16{tp, dp}], local>> -> tensor<8xf32, #tpc.dist<[16{dp}], local>>
  %8 = tpc.exchange %o over ["tp", "dp"] : !order -> tensor<8xf32, #tpc.dist<[16{dp}], local>>
  // CHECK: tpc.broadcast %{{.*}} over ["tp", "dp"] root 3
  %4 = tpc.broadcast %w over ["tp", "dp"] root 3 : !whole -> !whole
  // CHECK: tpc.local_slice %{{.*}} over ["tp"] dim 1
  %5 = tpc.local_slice %w over ["tp"] dim 1 : !whole -> !columns
  return
}

// CHECK: tpc.pipeline @main(%{{.*}}: tensor<?x?xi64, #tpc.dist<[b, s], local>>) inputs [{tpc.name = "ids"}] outputs [{name = "y"}] {
tpc.pipeline @main(%ids: tensor<?x?xi64, #tpc.dist<[b, s], local>>) inputs [{tpc.name = "ids"}] outputs [{name = "y"}] {
  // CHECK: tpc.stage 0 {
  tpc.stage 0 {
    // CHECK: tpc.micro_batches of <b{dp}> {
    tpc.micro_batches of #tpc.dim<b{dp}> {
      // CHECK: tpc.local_slice %{{.*}} over ["dp", "mb"] dim 0
      %0 = tpc.local_slice %ids over ["dp", "mb"] dim 0 : tensor<?x?xi64, #tpc.dist<[b, s], local>> -> tensor<?x?xi64, #tpc.dist<[b{dp, mb}, s], local>>
      // CHECK: tpc.send %{{.*}} to 1
      tpc.send %0 to 1 : tensor<?x?xi64, #tpc.dist<[b{dp, mb}, s], local>>
    }
  }
  // CHECK: tpc.stage 1 {
  tpc.stage 1 {
    tpc.micro_batches of #tpc.dim<b{dp}> {
      // CHECK: tpc.recv from 0
      %0 = tpc.recv from 0 : tensor<?x?xi64, #tpc.dist<[b{dp, mb}, s], local>>
      // CHECK: tpc.output 0, %{{.*}} :
      tpc.output 0, %0 : tensor<?x?xi64, #tpc.dist<[b{dp, mb}, s], local>>
    }
  }
}

// Canonical and other forms of dimensions.
// CHECK-LABEL: @dimensions
func.func private @dimensions(
  // CHECK-SAME: tensor<?xf32, #tpc.dist<["s + 1"]>>
  tensor<?xf32, #tpc.dist<["1 + s"]>>,
  // CHECK-SAME: tensor<?xf32, #tpc.dist<["floordiv(s, 2)"{tp}]>>
  tensor<?xf32, #tpc.dist<["s // 2"{tp}]>>,
  // CHECK-SAME: tensor<?xf32, #tpc.dist<[3*s]>>
  tensor<?xf32, #tpc.dist<[s*3*1]>>,
  // CHECK-SAME: tensor<12xf32, #tpc.dist<[3{dp}*4{tp}]>>
  tensor<12xf32, #tpc.dist<[3{dp}*4{tp}]>>,
  // CHECK-SAME: tensor<?xf32, #tpc.dist<[(3{dp}*s){tp}]>>
  tensor<?xf32, #tpc.dist<[(3{dp}*s){tp}]>>,
  // CHECK-SAME: tensor<?xf32, #tpc.dist<[(3*s){dp, tp}]>>
  tensor<?xf32, #tpc.dist<[(3*s){dp, tp}]>>)
}
