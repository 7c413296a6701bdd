// RUN: split-file %s %t
// RUN: tpc-opt %t/model.mlir --tpc-apply-annotations=file=%t/good.txt | FileCheck %t/model.mlir
// RUN: tpc-opt %t/model.mlir --tpc-apply-annotations=file=%t/good.txt --tpc-materialize-annotations --cse --tpc-attach-annotations | FileCheck %t/model.mlir --check-prefix=PLACED
// RUN: tpc-opt %t/model.mlir "--tpc-apply-annotations=file=%t/good.txt shard=tp2,dp1,manual" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: good.txt:3:26: remark: axis 'dp' has one rank, so it splits nothing
// An axis of several atoms is the list of them.
// RUN: tpc-opt %t/model.mlir "--tpc-apply-annotations=file=%t/good.txt shard=tp4,etp2,ep4,dp4" | FileCheck %s --check-prefix=ATOMS
// ATOMS: tpc.weight @layer.0.fc1 {{.*}}#tpc.dim<160{tp_ep, tp_etp, dp_edp, dp_ep}>

//--- good.txt
# Comments, spaces and blank lines are ignored.

  layer.?.fc1:   [ -, tp+dp ]   # to the end of the line
input_x: [dp, ?]
out:0: [-, tp]
odd\*name: [-]

//--- model.mlir
// CHECK: tpc.weight @layer.0.fc1 in "w" at 0 {tpc.sharding = [#tpc.dim<40>, #tpc.dim<160{tp, dp}>], tpc.sharding_source = "{{.*}}good.txt:3:3"} : tensor<40x160xf32>
// CHECK: tpc.weight @layer.1.fc1 in "w" at 0 {tpc.sharding = [#tpc.dim<40>, #tpc.dim<160{tp, dp}>]
// CHECK: tpc.weight @layer.10.fc1 in "w" at 0 :
// CHECK: tpc.weight @"odd*name" in "w" at 0 {tpc.sharding = [#tpc.dim<160>]
tpc.weight @layer.0.fc1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @layer.1.fc1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @layer.10.fc1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @"odd*name" in "w" at 0 : tensor<160xf32>
// CHECK: @main(%{{.*}}: tensor<?x40xf32, #tpc.dist<[batch, 40]>> {tpc.name = "input_x", tpc.sharding = [#tpc.dim<batch{dp}>, unit]
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>> {tpc.name = "input_x"}) -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> {
  %w = tpc.parameter @layer.0.fc1 : tensor<40x160xf32>
  // CHECK: tpc.matmul {{.*}} {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<160{tp}>], tpc.sharding_source = "{{.*}}good.txt:5:1"}
  // PLACED: tpc.matmul {{.*}} {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<160{tp}>], tpc.sharding_source = "{{.*}}good.txt:5:1"}
  %h = tpc.matmul %x, %w : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x160xf32> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("fc1"("MatMul"("out:0")))
  return %h : tensor<?x160xf32, #tpc.dist<[batch, 160]>>
}
