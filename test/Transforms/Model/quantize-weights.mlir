// Weights of matmuls become packed integers in a new file.
// RUN: rm -rf %t && mkdir %t && cp %s %t/in.mlir && cd %t
// RUN: %python -c "import array; array.array('f', [i % 23 - 11 for i in range(1024)]).tofile(open('w.bin', 'wb'))"
// RUN: tpc-opt in.mlir --tpc-quantize-weights="type=int4:16 file=%t/new.weights" | FileCheck %s
// RUN: %python -c "import os; print(os.path.getsize('new.weights'))" | FileCheck %s --check-prefix=BYTES
// RUN: tpc-opt in.mlir --tpc-quantize-weights="type=int8 writes=false file=%t/none" | FileCheck %s --check-prefix=EIGHT
// RUN: not ls none
// RUN: not tpc-opt in.mlir --tpc-quantize-weights="type=int3" 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not tpc-opt in.mlir --tpc-quantize-weights="file=%t/no/folder" 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: rm w.bin
// RUN: not tpc-opt in.mlir --tpc-quantize-weights 2>&1 | FileCheck %s --check-prefix=ABSENT
// FORMAT: there is no format 'int3'
// FOLDER: the weights '{{.*}}/no/folder' cannot be written
// ABSENT: weight 'table' cannot be quantized: '{{.*}}w.bin' cannot be read

// Bytes of 16 x 32 numbers and their scales, and of 32 x 16 numbers and their scales.
// BYTES: {{^}}768{{$}}

module attributes {tpc.source = "in.onnx"} {
// CHECK-NOT: tpc.weight @only in
// CHECK-DAG: tpc.weight @table in "w.bin" at 0 : tensor<32x16xf32>
// CHECK-DAG: tpc.weight @table.int4 in "{{.*}}/new.weights" at 0 : tensor<32x1x8xi8>
// CHECK-DAG: tpc.weight @table.scale in "{{.*}}/new.weights" at 256 : tensor<32x1x1x1xf32>
// CHECK-DAG: tpc.weight @only.int4 in "{{.*}}/new.weights" at 384 : tensor<16x2x8xi8>
// CHECK-DAG: tpc.weight @only.scale in "{{.*}}/new.weights" at 640 : tensor<16x2x1x1xf32>
// EIGHT-DAG: tpc.weight @only.int8 {{.*}} tensor<16x1x32xi8>
// EIGHT-DAG: tpc.weight @only.scale {{.*}} tensor<16x1x1x1xf32>
tpc.weight @table in "w.bin" at 0 : tensor<32x16xf32>
tpc.weight @only in "w.bin" at 2048 : tensor<32x16xf32>
tpc.weight @stack in "w.bin" at 0 : tensor<2x16x16xf32>

// CHECK-LABEL: func.func @main
// The table is transposed, and stays for the embedding.
// CHECK: %[[T:.*]] = tpc.parameter @table : tensor<32x16xf32>
// CHECK: %[[X:.*]] = tpc.parameter @stack
// CHECK: tpc.embedding %[[T]]
// CHECK: %[[Q:.*]] = tpc.parameter @table.int4 : tensor<32x1x8xi8>
// CHECK: %[[S:.*]] = tpc.parameter @table.scale : tensor<32x1x1x1xf32>
// CHECK: %[[D:.*]] = tpc.dequantize %[[Q]], %[[S]] bits 4 : tensor<32x1x8xi8>, tensor<32x1x1x1xf32> -> tensor<32x1x8x2xf32>
// CHECK: %[[M:.*]] = tpc.transpose %[[D]] [1, 2, 3, 0]
// CHECK: %[[R:.*]] = tpc.reshape %[[M]] : tensor<1x8x2x32xf32> -> tensor<16x32xf32>
// CHECK: tpc.matmul %{{.*}}, %[[R]]
// The same weight and view: the same numbers.
// CHECK: tpc.parameter @table.int4
// CHECK: tpc.matmul
// CHECK: tpc.parameter @only.int4
// CHECK: tpc.dequantize
// CHECK: tpc.matmul
// Unchanged: a stack of matrices, and a matmul of two activations.
// CHECK: tpc.matmul %{{.*}}, %[[X]]
func.func @main(%ids: tensor<4xi64>, %b: tensor<2x4x16xf32>) -> (tensor<4x16xf32>, tensor<4x32xf32>, tensor<2x4x16xf32>, tensor<4x4xf32>) {
  %table = tpc.parameter @table : tensor<32x16xf32>
  %only = tpc.parameter @only : tensor<32x16xf32>
  %stack = tpc.parameter @stack : tensor<2x16x16xf32>
  %x = tpc.embedding %table, %ids : tensor<32x16xf32>, tensor<4xi64> -> tensor<4x16xf32>
  %t = tpc.transpose %table [1, 0] : tensor<32x16xf32> -> tensor<16x32xf32>
  %h = tpc.matmul %x, %t : tensor<4x16xf32>, tensor<16x32xf32> -> tensor<4x32xf32>
  %i = tpc.matmul %x, %t : tensor<4x16xf32>, tensor<16x32xf32> -> tensor<4x32xf32>
  %y = tpc.matmul %h, %only : tensor<4x32xf32>, tensor<32x16xf32> -> tensor<4x16xf32>
  %z = tpc.matmul %b, %stack : tensor<2x4x16xf32>, tensor<2x16x16xf32> -> tensor<2x4x16xf32>
  %u = tpc.transpose %y [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  %v = tpc.matmul %x, %u : tensor<4x16xf32>, tensor<16x4xf32> -> tensor<4x4xf32>
  return %y, %i, %z, %v : tensor<4x16xf32>, tensor<4x32xf32>, tensor<2x4x16xf32>, tensor<4x4xf32>
}
}
