// A condition on the number of visible keys is folded if each query sees its own key.
// RUN: tpc-opt %s --tpc-simplify --split-input-file | FileCheck %s

#q = #tpc.dist<[s, 1]>
#k = #tpc.dist<[1, "p + s"]>
#m = #tpc.dist<[s, "p + s"]>

// Past keys precede those of the queries.
// CHECK-LABEL: @causal
// CHECK-NOT: tpc.reduce
// CHECK: return %arg0
func.func @causal(%x: tensor<?x4xf32, #tpc.dist<[s, 4]>>) -> tensor<?x4xf32, #tpc.dist<[s, 4]>> {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %one = tpc.constant dense<1.0> : tensor<f32> : tensor<f32>
  %p = tpc.size p : tensor<i64>
  %i = tpc.iota dim 0 : tensor<?x1xi64, #q>
  %row = tpc.add %i, %p : tensor<?x1xi64, #q>, tensor<i64> -> tensor<?x1xi64, #q>
  %key = tpc.iota dim 1 : tensor<1x?xi64, #k>
  %mask = tpc.cmp le %key, %row : tensor<1x?xi64, #k>, tensor<?x1xi64, #q> -> tensor<?x?xi1, #m>
  %n = tpc.cast %mask : tensor<?x?xi1, #m> -> tensor<?x?xf32, #m>
  %count = tpc.reduce sum %n [1] keep : tensor<?x?xf32, #m> -> tensor<?x1xf32, #q>
  %none = tpc.cmp lt %count, %one : tensor<?x1xf32, #q>, tensor<f32> -> tensor<?x1xi1, #q>
  %y = tpc.select %none, %zero, %x : tensor<?x1xi1, #q>, tensor<f32>, tensor<?x4xf32, #tpc.dist<[s, 4]>> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  return %y : tensor<?x4xf32, #tpc.dist<[s, 4]>>
}

// -----

#q = #tpc.dist<[s, 1]>
#k = #tpc.dist<[1, t]>
#m = #tpc.dist<[s, t]>

// There may be fewer keys than queries, or no keys.
// CHECK-LABEL: @others
// CHECK: tpc.cmp lt
func.func @others() -> tensor<?x1xi1, #q> {
  %one = tpc.constant dense<1> : tensor<i64> : tensor<i64>
  %row = tpc.iota dim 0 : tensor<?x1xi64, #q>
  %key = tpc.iota dim 1 : tensor<1x?xi64, #k>
  %mask = tpc.cmp le %key, %row : tensor<1x?xi64, #k>, tensor<?x1xi64, #q> -> tensor<?x?xi1, #m>
  %n = tpc.cast %mask : tensor<?x?xi1, #m> -> tensor<?x?xi64, #m>
  %count = tpc.reduce sum %n [1] keep : tensor<?x?xi64, #m> -> tensor<?x1xi64, #q>
  %none = tpc.cmp lt %count, %one : tensor<?x1xi64, #q>, tensor<i64> -> tensor<?x1xi1, #q>
  return %none : tensor<?x1xi1, #q>
}

// -----

#m = #tpc.dist<[s, s]>
#q = #tpc.dist<[s]>

// Query 0 sees no earlier key; the input may hide all keys; queries may see only one key.
// CHECK-LABEL: @may_hold
// CHECK: tpc.cmp lt
// CHECK: tpc.cmp lt
// CHECK: tpc.cmp lt
func.func @may_hold(%input: tensor<?x?xi1, #m>) -> (tensor<?xi1, #q>, tensor<?xi1, #q>, tensor<?xi1, #q>) {
  %one = tpc.constant dense<1> : tensor<i64> : tensor<i64>
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %row = tpc.iota dim 0 : tensor<?x?xi64, #m>
  %key = tpc.iota dim 1 : tensor<?x?xi64, #m>
  %lt = tpc.cmp lt %key, %row : tensor<?x?xi64, #m>, tensor<?x?xi64, #m> -> tensor<?x?xi1, #m>
  %n = tpc.cast %lt : tensor<?x?xi1, #m> -> tensor<?x?xi64, #m>
  %count = tpc.reduce sum %n [1] : tensor<?x?xi64, #m> -> tensor<?xi64, #q>
  %a = tpc.cmp lt %count, %one : tensor<?xi64, #q>, tensor<i64> -> tensor<?xi1, #q>
  %le = tpc.cmp le %key, %row : tensor<?x?xi64, #m>, tensor<?x?xi64, #m> -> tensor<?x?xi1, #m>
  %both = tpc.and %le, %input : tensor<?x?xi1, #m>, tensor<?x?xi1, #m> -> tensor<?x?xi1, #m>
  %n1 = tpc.cast %both : tensor<?x?xi1, #m> -> tensor<?x?xi64, #m>
  %count1 = tpc.reduce sum %n1 [1] : tensor<?x?xi64, #m> -> tensor<?xi64, #q>
  %b = tpc.cmp lt %count1, %one : tensor<?xi64, #q>, tensor<i64> -> tensor<?xi1, #q>
  %n2 = tpc.cast %le : tensor<?x?xi1, #m> -> tensor<?x?xi64, #m>
  %count2 = tpc.reduce sum %n2 [1] : tensor<?x?xi64, #m> -> tensor<?xi64, #q>
  %c = tpc.cmp lt %count2, %two : tensor<?xi64, #q>, tensor<i64> -> tensor<?xi1, #q>
  return %a, %b, %c : tensor<?xi1, #q>, tensor<?xi1, #q>, tensor<?xi1, #q>
}
