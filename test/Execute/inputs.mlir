// Inputs are drawn from the domain of all ops: no index exceeds its table, no division by zero, no
// root of a negative number. Other inputs would make outputs NaN or zero, for right and wrong
// programs alike.
// RUN: tpc-opt %s --split-input-file --tpc-evaluate -o %t.mlir
// RUN: FileCheck %s --implicit-check-not=0x7FF --implicit-check-not=0xFFF --implicit-check-not="[0.000000e+00, 0.000000e+00, 0.000000e+00]" --input-file=%t.mlir

// CHECK-COUNT-33: tpc.expected = [dense<
// The inputs of the last program are unsigned 8-bit numbers: none is negative, and all are rows of
// its table.
// CHECK-SAME: tpc.inputs = [dense<[{{[0-9.e+, ]*}}]> : tensor<9xf64>]

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%ids: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.embedding %table, %ids : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<4x2x3xf32>
func.func @main(%ids: tensor<5xi64>) -> tensor<4x5x3xf32> {
  %table = tpc.parameter @table : tensor<4x2x3xf32>
  %0 = tpc.gather %table, %ids dim 1 : tensor<4x2x3xf32>, tensor<5xi64> -> tensor<4x5x3xf32>
  return %0 : tensor<4x5x3xf32>
}

// -----

// Both indices of a tuple, within the shorter of the two dimensions.
tpc.weight @table in "w" at 0 : tensor<3x5x2x3xf32>
func.func @main(%ids: tensor<3x4x2xi64>) -> tensor<3x4x3xf32> {
  %table = tpc.parameter @table : tensor<3x5x2x3xf32>
  %0 = tpc.gather_nd %table, %ids batch 1 : tensor<3x5x2x3xf32>, tensor<3x4x2xi64> -> tensor<3x4x3xf32>
  return %0 : tensor<3x4x3xf32>
}

// -----

// Ids of two tables are limited by the shorter one.
tpc.weight @long in "w" at 0 : tensor<50x3xf32>
tpc.weight @short in "w" at 600 : tensor<2x3xf32>
func.func @main(%ids: tensor<9xi64>) -> tensor<9x3xf32> {
  %long = tpc.parameter @long : tensor<50x3xf32>
  %short = tpc.parameter @short : tensor<2x3xf32>
  %0 = tpc.gather %short, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  %1 = tpc.gather %long, %ids dim 0 : tensor<50x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  %2 = tpc.add %0, %1 : tensor<9x3xf32>, tensor<9x3xf32> -> tensor<9x3xf32>
  return %2 : tensor<9x3xf32>
}

// -----

// There are more positions than the table has rows.
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%ids: tensor<9xi64> {tpc.default = #tpc.default<positions>}) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}

// -----

// A table of one row has no row for `true`.
tpc.weight @table in "w" at 0 : tensor<1x3xf32>
func.func @main(%seen: tensor<9xi1>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<1x3xf32>
  %ids = tpc.cast %seen : tensor<9xi1> -> tensor<9xi64>
  %0 = tpc.gather %table, %ids dim 0 : tensor<1x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}

//===----------------------------------------------------------------------===//
// Through ops before the lookup
//===----------------------------------------------------------------------===//

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<3x3xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.reshape %x : tensor<3x3xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<1x9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.transpose %x [1, 0] : tensor<1x9xi64> -> tensor<9x1xi64>
  %ids = tpc.reshape %0 : tensor<9x1xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<1xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.expand %x : tensor<1xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<18xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.slice %x dim 0 from 1 step 2 : tensor<18xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.roll %x dim 0 from 1 every 9 : tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<7xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %zero = tpc.constant dense<0> : tensor<2xi64> : tensor<2xi64>
  %ids = tpc.concat %zero, %x dim 0 : tensor<2xi64>, tensor<7xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<3x3xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.trilu upper %x : tensor<3x3xi64> -> tensor<3x3xi64>
  %ids = tpc.reshape %0 : tensor<3x3xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

// Ids that are floats with integer values.
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xf32>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.cast %x : tensor<9xf32> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

// Exporters' form of counting from the end: where(x < 0, x + 2, x).
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %negative = tpc.cmp lt %x, %zero : tensor<9xi64>, tensor<i64> -> tensor<9xi1>
  %1 = tpc.add %x, %two : tensor<9xi64>, tensor<i64> -> tensor<9xi64>
  %ids = tpc.select %negative, %1, %x : tensor<9xi1>, tensor<9xi64>, tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<-100> : tensor<i64> : tensor<i64>
  %ids = tpc.max %x, %0 : tensor<9xi64>, tensor<i64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<100> : tensor<i64> : tensor<i64>
  %ids = tpc.min %0, %x : tensor<i64>, tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

// Positions that begin at fifty, or count down from it.
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<50> : tensor<i64> : tensor<i64>
  %ids = tpc.add %x, %0 : tensor<9xi64>, tensor<i64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<50> : tensor<i64> : tensor<i64>
  %ids = tpc.sub %x, %0 : tensor<9xi64>, tensor<i64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<50> : tensor<i64> : tensor<i64>
  %ids = tpc.sub %0, %x : tensor<i64>, tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<50> : tensor<i64> : tensor<i64>
  %1 = tpc.add %0, %x : tensor<i64>, tensor<9xi64> -> tensor<9xi64>
  %ids = tpc.neg %1 : tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9x4xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = tpc.reduce max %x [1] : tensor<9x4xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

// Ids that are the result of a lookup.
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<4xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.constant dense<[0, 2, 1, 0, 3, 3, 1, 0, 2]> : tensor<9xi64> : tensor<9xi64>
  %ids = tpc.gather %x, %0 dim 0 : tensor<4xi64>, tensor<9xi64> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

// Through a function call, and inside a function.
func.func @last(%x: tensor<9x4xi64>) -> tensor<9xi64> {
  %0 = tpc.slice %x dim 1 from 3 : tensor<9x4xi64> -> tensor<9x1xi64>
  %1 = tpc.reshape %0 : tensor<9x1xi64> -> tensor<9xi64>
  return %1 : tensor<9xi64>
}
tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @main(%x: tensor<9x4xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %ids = func.call @last(%x) : (tensor<9x4xi64>) -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}

// -----

tpc.weight @table in "w" at 0 : tensor<2x3xf32>
func.func @layer(%ids: tensor<9xi64>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<2x3xf32>
  %0 = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}
func.func @main(%ids: tensor<9xi64>) -> tensor<9x3xf32> {
  %0 = call @layer(%ids) : (tensor<9xi64>) -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}

// -----

!ids = tensor<4x4xi64>
!rows = tensor<4x4xi64, #tpc.dist<[4{tp}, 4]>>
!columns = tensor<4x4xi64, #tpc.dist<[4, 4{tp}]>>
!both = tensor<4x4xi64, #tpc.dist<[4{dp}, 4{tp}]>>
!other = tensor<4x4xi64, #tpc.dist<[4{tp}, 4{dp}]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
  tpc.weight @table in "w" at 0 : tensor<2x3xf32>
  func.func @main(%x: !ids) -> tensor<4x4x3xf32> {
    %table = tpc.parameter @table : tensor<2x3xf32>
    %0 = tpc.local_slice %x over ["tp"] dim 0 : !ids -> !rows
    %1 = tpc.collective_permute %0 over ["tp"] dim 0 from 1 every 4 : !rows -> !rows
    %2 = tpc.all_to_all %1 over ["tp"] from 0 to 1 : !rows -> !columns
    %3 = tpc.local_slice %2 over ["dp"] dim 0 : !columns -> !both
    %4 = tpc.exchange %3 over ["dp", "tp"] : !both -> !other
    %5 = tpc.all_gather %4 over ["dp"] dim 1 : !other -> !rows
    %6 = tpc.all_gather %5 over ["tp"] dim 0 : !rows -> !ids
    %ids = tpc.broadcast %6 over ["tp"] root 0 : !ids -> !ids
    %7 = tpc.gather %table, %ids dim 0 : tensor<2x3xf32>, !ids -> tensor<4x4x3xf32>
    return %7 : tensor<4x4x3xf32>
  }
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

// -----

func.func @main(%x: tensor<30xi64>, %y: tensor<30xi64>) -> tensor<30xi64> {
  %0 = tpc.div %x, %y : tensor<30xi64>, tensor<30xi64> -> tensor<30xi64>
  return %0 : tensor<30xi64>
}

// -----

func.func @main(%x: tensor<30xi64>, %y: tensor<30xi64>) -> tensor<30xi64> {
  %0 = tpc.mod %x, %y : tensor<30xi64>, tensor<30xi64> -> tensor<30xi64>
  return %0 : tensor<30xi64>
}

// -----

func.func @main(%x: tensor<30xf32>) -> tensor<30xf32> {
  %0 = tpc.sqrt %x : tensor<30xf32> -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// -----

func.func @main(%x: tensor<30xf32>) -> tensor<30xf32> {
  %0 = tpc.rsqrt %x : tensor<30xf32> -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// -----

func.func @main(%x: tensor<30xf32>) -> tensor<30xf32> {
  %0 = tpc.log %x : tensor<30xf32> -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// -----

func.func @main(%x: tensor<30xf32>, %y: tensor<30xf32>) -> tensor<30xf32> {
  %0 = tpc.pow %x, %y : tensor<30xf32>, tensor<30xf32> -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// -----

// The last program: ids are unsigned 8-bit numbers.
tpc.weight @table in "w" at 0 : tensor<500x3xf32>
func.func @main(%x: tensor<9xui8>) -> tensor<9x3xf32> {
  %table = tpc.parameter @table : tensor<500x3xf32>
  %ids = tpc.cast %x : tensor<9xui8> -> tensor<9xi64>
  %out = tpc.gather %table, %ids dim 0 : tensor<500x3xf32>, tensor<9xi64> -> tensor<9x3xf32>
  return %out : tensor<9x3xf32>
}
