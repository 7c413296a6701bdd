// RUN: split-file %s %t
// DEFINE: %{file} = nothing.txt
// DEFINE: %{check} = cd %t && not tpc-opt model.mlir --tpc-apply-annotations=file=%{file} 2>&1 | FileCheck %{file}
// REDEFINE: %{file} = nothing.txt
// RUN: %{check}
// REDEFINE: %{file} = rank.txt
// RUN: %{check}
// REDEFINE: %{file} = axis.txt
// RUN: %{check}
// REDEFINE: %{file} = stage.txt
// RUN: %{check}
// REDEFINE: %{file} = two.txt
// RUN: %{check}
// REDEFINE: %{file} = twice.txt
// RUN: %{check}
// REDEFINE: %{file} = again.txt
// RUN: %{check}
// REDEFINE: %{file} = list.txt
// RUN: %{check}
// REDEFINE: %{file} = colon.txt
// RUN: %{check}
// REDEFINE: %{file} = pattern.txt
// RUN: %{check}
// REDEFINE: %{file} = open.txt
// RUN: %{check}
// REDEFINE: %{file} = after.txt
// RUN: %{check}
// REDEFINE: %{file} = entry.txt
// RUN: %{check}
// RUN: not tpc-opt %t/model.mlir --tpc-apply-annotations=file=%t/none.txt 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: none.txt:0:0: error: cannot read the annotations: No such file or directory
// RUN: not tpc-opt %t/model.mlir "--tpc-apply-annotations=file=%t/twice.txt shard=tp0" 2>&1 | FileCheck %s --check-prefix=SHARD
// SHARD: for the --shard option: {{.*}}'tp0'

//--- model.mlir
tpc.weight @fc1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @bias in "w" at 0 : tensor<160xf32>
func.func @main() {
  return
}
//--- nothing.txt
fc1: [-, tp]
# CHECK: nothing.txt:3:2: error: pattern 'fc2' matches nothing: no weight, input or value of the model has such a name; the nearest is 'fc1'
 fc2: [-, tp]

//--- rank.txt
# CHECK: rank.txt:2:6: error: the list has 1 entry, but weight 'fc1' has 2 dimensions [40, 160]
fc1: [tp]

//--- axis.txt
# CHECK: axis.txt:2:10: error: there is no axis 'tq'; the grid has tp, cp, ep, dp, pp
fc1: [-, tq]

//--- stage.txt
# CHECK: stage.txt:2:10: error: 'pp' splits layers, not dimensions; write ppN in --megatron-shard
fc1: [-, pp]

//--- two.txt
# CHECK: two.txt:4:6: error: line 4 annotates weight 'fc1' as [-, tp], but line 3 as [tp, -]
# CHECK: two.txt:3:5: note: the other pattern, 'f*'
f*: [tp, -]
fc1: [-, tp]

//--- twice.txt
# CHECK: twice.txt:2:11: error: axis 'tp' splits two dimensions (the other at column 7); an axis splits one
fc1: [tp, tp]

//--- again.txt
# CHECK: again.txt:2:13: error: axis 'tp' occurs twice in this entry
fc1: [-, tp+tp]

//--- list.txt
# CHECK: list.txt:2:1: error: no list; write 'PATTERN: [-, tp]', one entry per dimension
fc1: tp

//--- colon.txt
# CHECK: colon.txt:2:5: error: a colon is missing before the list
fc1 [tp, -]

//--- pattern.txt
# CHECK: pattern.txt:2:1: error: the pattern is missing
: [tp, -]

//--- open.txt
# CHECK: open.txt:2:12: error: the list has no end; ']' is missing
fc1: [tp, - 

//--- after.txt
# CHECK: after.txt:2:15: error: 'x' after the list
fc1: [tp, -]  x

//--- entry.txt
# CHECK: entry.txt:2:7: error: '*' is not an entry; expected '-', '?', or axes such as tp or tp+dp
fc1: [*, -]

