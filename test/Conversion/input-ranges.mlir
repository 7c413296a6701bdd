// RUN: tpc-opt %s --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program | FileCheck %s

// The manifest has the range of valid ids of an input: the rows that they may index.

tpc.weight @big in "/w.bin" at 0 : tensor<50x2xf32>
tpc.weight @small in "/w.bin" at 400 : tensor<5x2xf32>

func.func private @stage_0(%all: tensor<3xi64>, %parts: tensor<3x2xi64>, %both: tensor<3x2xi64>, %truth: tensor<3xf32>, %number: tensor<3xf32>, %narrow: tensor<3xi64>)
    -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x2x2xf32>, tensor<3x1x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %big = tpc.parameter @big : tensor<50x2xf32>
  %small = tpc.parameter @small : tensor<5x2xf32>
  %0 = tpc.embedding %small, %all : tensor<5x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %1 = tpc.embedding %big, %all : tensor<50x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %p0 = tpc.slice %parts dim 1 from 0 : tensor<3x2xi64> -> tensor<3x1xi64>
  %p1 = tpc.slice %parts dim 1 from 1 : tensor<3x2xi64> -> tensor<3x1xi64>
  %2 = tpc.embedding %small, %p0 : tensor<5x2xf32>, tensor<3x1xi64> -> tensor<3x1x2xf32>
  %3 = tpc.embedding %big, %p1 : tensor<50x2xf32>, tensor<3x1xi64> -> tensor<3x1x2xf32>
  %4 = tpc.embedding %big, %both : tensor<50x2xf32>, tensor<3x2xi64> -> tensor<3x2x2xf32>
  %b0 = tpc.slice %both dim 1 from 0 : tensor<3x2xi64> -> tensor<3x1xi64>
  %5 = tpc.embedding %small, %b0 : tensor<5x2xf32>, tensor<3x1xi64> -> tensor<3x1x2xf32>
  %t0 = tpc.cast %truth : tensor<3xf32> -> tensor<3xi1>
  %t1 = tpc.cast %t0 : tensor<3xi1> -> tensor<3xi64>
  %6 = tpc.embedding %small, %t1 : tensor<5x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %n = tpc.cast %number : tensor<3xf32> -> tensor<3xi64>
  %7 = tpc.embedding %small, %n : tensor<5x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %w0 = tpc.cast %narrow : tensor<3xi64> -> tensor<3xi32>
  %w1 = tpc.cast %w0 : tensor<3xi32> -> tensor<3xui8>
  %w2 = tpc.cast %w1 : tensor<3xui8> -> tensor<3xi64>
  %8 = tpc.embedding %small, %w2 : tensor<5x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x2x2xf32>, tensor<3x1x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

tpc.pipeline @main(%all: tensor<3xi64>, %parts: tensor<3x2xi64>, %both: tensor<3x2xi64>, %truth: tensor<3xf32>, %number: tensor<3xf32>, %narrow: tensor<3xi64>)
    inputs [{tpc.name = "all"}, {tpc.name = "parts"}, {tpc.name = "both"}, {tpc.name = "truth"}, {tpc.name = "number"}, {tpc.name = "narrow"}] outputs [] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0:9 = func.call @stage_0(%all, %parts, %both, %truth, %number, %narrow) : (tensor<3xi64>, tensor<3x2xi64>, tensor<3x2xi64>, tensor<3xf32>, tensor<3xf32>, tensor<3xi64>)
        -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x2x2xf32>, tensor<3x1x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>)
    }
  }
}

// Ids index both tables, so the smaller one is the limit.
// CHECK: \22name\22:\22all\22,\22range\22:[-5,4],\22range_of\22:\22small\22
// A table is indexed by a slice of the ids only. So the input has no range, and kernels check the
// ids.
// CHECK-SAME: \22name\22:\22parts\22,\22shape\22
// CHECK-SAME: \22name\22:\22both\22,\22range\22:[-50,49],\22range_of\22:\22big\22
// Booleans index row 0 or 1, whatever type they were cast from, so they need no range.
// CHECK-SAME: \22name\22:\22truth\22,\22shape\22
// CHECK-SAME: \22name\22:\22number\22,\22range\22:[-5,4],\22range_of\22:\22small\22
// Ids that may wrap around are checked after the cast.
// CHECK-SAME: \22name\22:\22narrow\22,\22range\22:[-5,4],\22range_after\22:[\22i32\22,\22u8\22]
