// Each tactic owns values. Its expected collectives are those that the reshards of its values
// become.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,sp --tpc-insert-reshards --mlir-print-debuginfo > %t.mlir
// RUN: FileCheck %s --check-prefix=CLAIMED < %t.mlir
// RUN: tpc-opt %t.mlir --tpc-lower-reshards --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2 | FileCheck %s --check-prefix=WHOLE

// Partial sums with a sharded result are scattered, so no all-reduce is expected. 'gate' is added
// to the partial sum of 'down' before both are reduced; the tactic owns this sum too.
// CLAIMED: name = "tp", predicts = [{axis = "tp", kind = "reduce_scatter", size = "t", why = "sums over the 32 that tp splits"}], splits
// CLAIMED: name = "sp", predicts = [{axis = "tp", kind = "all_gather", size = "t", why = "matmuls that tp splits need all tokens"}], splits
// WHOLE: name = "tp", predicts = [{axis = "tp", kind = "all_reduce", why = "sums over the 32 that tp splits"}], splits

// CHECK-LABEL: @layer
// CHECK: tpc.all_gather
// CHECK: tpc.add {{.*}}, sum{tp}>> loc("residual")
// CHECK-NEXT: tpc.reduce_scatter

// A reshard of a value that no tactic owns is an error, whatever other values tactics own.
// RUN: sed 's/{name = "sp", predicts = \[[^]]*\]/{name = "sp", predicts = []/' %t.mlir > %t.sp.mlir
// RUN: not tpc-opt %t.sp.mlir --tpc-lower-reshards 2>&1 | FileCheck %s --check-prefix=SP
// SP: 'norm' needs an all_gather over 'tp' of dimension 0 (t) that no tactic expects
// RUN: sed 's/{name = "tp", predicts = \[[^]]*\]/{name = "tp", predicts = []/' %t.mlir > %t.tp.mlir
// RUN: not tpc-opt %t.tp.mlir --tpc-lower-reshards 2>&1 | FileCheck %s --check-prefix=TP
// TP: 'residual' needs a reduce_scatter over 'tp' of dimension 0 (t) that no tactic expects

tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
tpc.weight @e in "w" at 0 : tensor<32x8xf32>
func.func private @layer(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>, %s: tensor<8xf32>, %u: tensor<8x32xf32>, %d: tensor<32x8xf32>, %e: tensor<32x8xf32>)
    -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("norm")
  %h = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>> loc("up")
  %p = tpc.matmul %h, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("down")
  %q = tpc.matmul %h, %e : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("gate")
  %a = tpc.add %p, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("sum")
  %y = tpc.add %x, %a : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("residual")
  return %y : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %s = tpc.parameter @s : tensor<8xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %e = tpc.parameter @e : tensor<32x8xf32>
  %0 = call @layer(%x, %s, %u, %d, %e) : (tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32>, tensor<8x32xf32>, tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %1 = call @layer(%0, %s, %u, %d, %e) : (tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32>, tensor<8x32xf32>, tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %1 : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}
