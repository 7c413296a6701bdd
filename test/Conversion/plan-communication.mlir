// RUN: tpc-opt %s --tpc-plan-buffers | FileCheck %s

// Tensor shapes of collectives: [outer, n, inner], where n, a factor of a dimension or the rest of
// their product, is split over one axis. (host-communication.mlir has the arguments of the calls.)
!two = tensor<5x12xbf16, #tpc.dist<[5, 12], sum{tp, dp}, local>>
!heads = tensor<5x48xf32, #tpc.dist<[5, 3 * 8{tp} * 4], local>>
!merged = tensor<4x6xf32, #tpc.dist<[(2 * 4){tp}, 6], local>>
!uneven = tensor<?x6xf32, #tpc.dist<[7{tp}, 6], local>>
!inner = tensor<?x6xf32, #tpc.dist<[14{tp, dp}, 6], local>>
!outer = tensor<7x6xf32, #tpc.dist<[14{tp}, 6], local>>
!rows = tensor<40x7x96xf32, #tpc.dist<[5 * 8{tp} * 2, 7, 96], local>>
!columns = tensor<80x7x48xf32, #tpc.dist<[80, 7, 3 * 8{tp} * 4], local>>
!there = tensor<2x3xf32, #tpc.dist<[12{tp, dp}, 3], local>>
!here = tensor<2x3xf32, #tpc.dist<[12{dp, tp}, 3], local>>
!runs = tensor<3x20x2xf32, #tpc.dist<[3, 5 * 8{tp}, 2], local>>
!a = tensor<6x27x5xf32, #tpc.dist<[12{tp}, 27, 5], local>>
!b = tensor<4x27x5xf32, #tpc.dist<[12{dp}, 27, 5], local>>
!c = tensor<6x9x5xf32, #tpc.dist<[12{tp}, 3 * 9{dp}, 5], local>>
!d = tensor<4x?x5xf32, #tpc.dist<[12{dp}, 3 * 9{tp}, 5], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 1, mb = 1>} {

// A factor in the middle of a dimension: factors before it belong to `outer`, those after it to
// `inner`.
// CHECK-LABEL: tpc_buffer.func @factor_on_buffers
// CHECK-NEXT: tpc_buffer.all_gather %arg0 to %arg1 over ["tp"] outer "_3*_5" n _8 inner _4
func.func private @factor(%x: !heads) -> tensor<5x96xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 1 : !heads -> tensor<5x96xf32>
  return %0 : tensor<5x96xf32>
}

// A product of factors is split as one size.
// CHECK-LABEL: tpc_buffer.func @product_on_buffers
// CHECK-NEXT: tpc_buffer.all_gather %arg0 to %arg1 over ["tp"] outer 1 n _8 inner _6
func.func private @product(%x: !merged) -> tensor<8x6xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !merged -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// Uneven shards: n is the whole size, and the runtime computes the split.
// CHECK-LABEL: tpc_buffer.func @uneven_on_buffers
// CHECK-NEXT: tpc_buffer.all_gather %arg0 to %arg1 over ["tp"] outer 1 n _7 inner _6
func.func private @uneven(%x: !uneven) -> tensor<7x6xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !uneven -> tensor<7x6xf32>
  return %0 : tensor<7x6xf32>
}

// With two axes, the inner one splits the shard of the outer one.
// CHECK-LABEL: tpc_buffer.func @inner_on_buffers
// CHECK-NEXT: tpc_buffer.all_gather %arg0 to %arg1 over ["dp"] outer 1 n _14.tp inner _6
func.func private @inner(%x: !inner) -> !outer {
  %0 = tpc.all_gather %x over ["dp"] dim 0 : !inner -> !outer
  return %0 : !outer
}

// A scatter over two axes begins with the outer axis, to an intermediate buffer. (A gather begins
// with the inner axis.)
// CHECK-LABEL: tpc_buffer.func @scatter_two_on_buffers
// CHECK-NEXT: %[[F:.*]] = tpc_buffer.push "64*floordiv(2*_12.tp*_5 + 63, 64)"
// CHECK-NEXT: %[[T:.*]] = tpc_buffer.slot %[[F]] at 0 : "_12.tp*_5" x bf16
// CHECK-NEXT: tpc_buffer.reduce_scatter %arg0 to %[[T]] over ["tp"] sum outer _5 n _12 inner 1
// CHECK-NEXT: tpc_buffer.reduce_scatter %[[T]] to %arg1 over ["dp"] sum outer _5 n _12.tp inner 1
// CHECK-NEXT: tpc_buffer.pop %[[F]]
func.func private @scatter_two(%x: !two) -> tensor<5x2xbf16, #tpc.dist<[5, 12{tp, dp}], local>> {
  %0 = tpc.reduce_scatter %x over ["tp", "dp"] dim 1 : !two -> tensor<5x2xbf16, #tpc.dist<[5, 12{tp, dp}], local>>
  return %0 : tensor<5x2xbf16, #tpc.dist<[5, 12{tp, dp}], local>>
}

// Reductions other than sums.
// CHECK-LABEL: tpc_buffer.func @minimum_on_buffers
// CHECK-NEXT: tpc_buffer.all_reduce %arg0 to %arg1 over ["tp"] min count _4
func.func private @minimum(%x: tensor<4xf32, #tpc.dist<[4], min{tp}, local>>) -> tensor<4xf32> {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4xf32, #tpc.dist<[4], min{tp}, local>> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An all-to-all of two factors as [outer, a, middle, b, inner]: `middle` has the factors after the
// first one in its dimension, the dimensions between, and the factors before the second one in its
// dimension.
// CHECK-LABEL: tpc_buffer.func @turn_factors_on_buffers
// CHECK-NEXT: tpc_buffer.all_to_all %arg0 to %arg1 over ["tp"] outer _5 a _8 middle "_2*_3*_7" b _8 inner _4
// CHECK-LABEL: tpc_buffer.func @turn_back_on_buffers
// CHECK-NEXT: tpc_buffer.all_to_all %arg0 to %arg1 over ["tp"] outer _5 a _8 middle "_2*_3*_7" b _8 inner _4 splits_first
func.func private @turn_factors(%x: !rows) -> !columns {
  %0 = tpc.all_to_all %x over ["tp"] from 0 to 2 : !rows -> !columns
  return %0 : !columns
}
func.func private @turn_back(%x: !columns) -> !rows {
  %0 = tpc.all_to_all %x over ["tp"] from 2 to 0 : !columns -> !rows
  return %0 : !rows
}

// A permute has the axes that split the tensor before and after. Blocks before the split factor
// belong to `outer`. A shift to the right is negative.
// CHECK-LABEL: tpc_buffer.func @reorder_on_buffers
// CHECK-NEXT: splits {{\[\[}}"tp", "dp"], [], ["dp", "tp"], []] outer 1 blocks 1 n _12 unit 1 inner _3 first 0
// CHECK-LABEL: tpc_buffer.func @shift_runs_on_buffers
// CHECK-NEXT: splits {{\[\[}}"tp"], [], ["tp"], []] outer "_3*_5" blocks 1 n _8 unit 1 inner _2 first -1
// CHECK-LABEL: tpc_buffer.func @swap_halves_on_buffers
// CHECK: first _4
func.func private @reorder(%x: !there) -> !here {
  %0 = tpc.collective_permute %x over ["tp", "dp"] dim 0 : !there -> !here
  return %0 : !here
}
func.func private @shift_runs(%x: !runs) -> !runs {
  %0 = tpc.collective_permute %x over ["tp"] dim 1 from -1 every 8 : !runs -> !runs
  return %0 : !runs
}
func.func private @swap_halves(%x: !runs) -> !runs {
  %0 = tpc.collective_permute %x over ["tp"] dim 1 from 4 every 8 : !runs -> !runs
  return %0 : !runs
}

// An exchange lists the axes before and after, first of each factor and then of the product of a
// dimension's factors, and all sizes. A factor that is unsplit before and after is a separate
// dimension.
// CHECK-LABEL: tpc_buffer.func @exchange_on_buffers
// CHECK-NEXT: layout {{\[\[\[}}"tp"], ["dp"], [], []], {{\[\[}}], [], [], []], {{\[\[}}], [], [], []]] sizes [_12, _27, _5]
// CHECK-LABEL: tpc_buffer.func @exchange_factors_on_buffers
// CHECK-NEXT: layout {{\[\[\[}}"tp"], ["dp"], [], []], {{\[\[}}], [], [], []], {{\[\[}}"dp"], ["tp"], [], []], {{\[\[}}], [], [], []]] sizes [_12, _3, _9, _5]
func.func private @exchange(%x: !a) -> !b {
  %0 = tpc.exchange %x over ["tp", "dp"] : !a -> !b
  return %0 : !b
}
func.func private @exchange_factors(%x: !c) -> !d {
  %0 = tpc.exchange %x over ["tp", "dp"] : !c -> !d
  return %0 : !d
}

// A broadcast works in place, so an operand in the caller's memory is copied to the result first.
// CHECK-LABEL: tpc_buffer.func @broadcast_on_buffers
// CHECK-NEXT: tpc_buffer.copy %arg0 to %arg1 bytes "2*_4*_5"
// CHECK-NEXT: tpc_buffer.broadcast %arg1 over ["dp"] count "_4*_5" root 2
func.func private @broadcast(%x: tensor<4x5xf16>) -> tensor<4x5xf16> {
  %0 = tpc.broadcast %x over ["dp"] root 2 : tensor<4x5xf16> -> tensor<4x5xf16>
  return %0 : tensor<4x5xf16>
}

// Slices of the first factor, of a product, or by a second axis within the shard of the first are
// contiguous. They are addresses; other slices are kernels.
// CHECK-LABEL: tpc_buffer.func @part_of_factor_on_buffers
// CHECK-NEXT: tpc_buffer.part %arg0 from "_4*_6*_8.tp*rank.tp" : "_4*_6*_8.tp" x f32
// CHECK-LABEL: tpc_buffer.func @part_of_product_on_buffers
// CHECK-NEXT: tpc_buffer.part %arg0 from "_32.tp*_6*rank.tp" : "_32.tp*_6" x f32
// CHECK-LABEL: tpc_buffer.func @part_of_part_on_buffers
// CHECK-NEXT: tpc_buffer.part %arg0 from "_12.tp.dp*_6*rank.dp" : "_12.tp.dp*_6" x f32
func.func private @part_of_factor(%x: tensor<32x6xf32>) -> tensor<16x6xf32, #tpc.dist<[8{tp} * 4, 6], local>> {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<32x6xf32> -> tensor<16x6xf32, #tpc.dist<[8{tp} * 4, 6], local>>
  return %0 : tensor<16x6xf32, #tpc.dist<[8{tp} * 4, 6], local>>
}
func.func private @part_of_product(%x: tensor<32x6xf32>) -> tensor<16x6xf32, #tpc.dist<[32{tp}, 6], local>> {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<32x6xf32> -> tensor<16x6xf32, #tpc.dist<[32{tp}, 6], local>>
  return %0 : tensor<16x6xf32, #tpc.dist<[32{tp}, 6], local>>
}
func.func private @part_of_part(%x: tensor<6x6xf32, #tpc.dist<[12{tp}, 6], local>>) -> tensor<2x6xf32, #tpc.dist<[12{tp, dp}, 6], local>> {
  %0 = tpc.local_slice %x over ["dp"] dim 0 : tensor<6x6xf32, #tpc.dist<[12{tp}, 6], local>> -> tensor<2x6xf32, #tpc.dist<[12{tp, dp}, 6], local>>
  return %0 : tensor<2x6xf32, #tpc.dist<[12{tp, dp}, 6], local>>
}
}
