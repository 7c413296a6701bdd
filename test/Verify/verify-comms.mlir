// Programs that are accepted, and their proof in the certificate.
// RUN: tpc-opt %s --split-input-file --tpc-verify-comms=certificate=- -o /dev/null | FileCheck %s
// RUN: not tpc-opt %s --split-input-file --tpc-verify-comms=certificate=/nonexistent/proof -o /dev/null 2>&1 | FileCheck %s --check-prefix=WRITE
// WRITE: error: certificate: cannot write '/nonexistent/proof': No such file or directory

// In each of two stages, an iteration runs one micro-batch. Replicas may run different numbers of
// iterations. Ranks of one tp group, and ranks that send each other messages, run equally many.
#batch = #tpc.dim<batch{dp, mb}>
!ids = tensor<?xi64, #tpc.dist<[batch], local>>
!part = tensor<?x8xf32, #tpc.dist<[batch{dp, mb}, 8], local>>
!sum = tensor<?x8xf32, #tpc.dist<[batch{dp, mb}, 8], sum{tp}, local>>
!mine = tensor<?xi64, #tpc.dist<[batch{dp, mb}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 2, mb = 4>} {
  tpc.weight @w in "w" at 0 : tensor<10x8xf32>
  func.func private @layer(%x: !sum) -> !part {
    %0 = tpc.all_reduce %x over ["tp"] : !sum -> !part
    return %0 : !part
  }
  func.func private @stage_0(%ids: !ids) -> !part {
    %0 = tpc.parameter @w : tensor<5x8xf32, #tpc.dist<[10{tp}, 8], local>>
    %1 = tpc.local_slice %ids over ["dp", "mb"] dim 0 : !ids -> !mine
    %2 = tpc.embedding %0, %1 : tensor<5x8xf32, #tpc.dist<[10{tp}, 8], local>>, !mine -> !sum
    %3 = call @layer(%2) : (!sum) -> !part
    %4 = call @layer(%2) : (!sum) -> !part
    %5 = tpc.add %3, %4 : !part, !part -> !part
    return %5 : !part
  }
  tpc.pipeline @main(%ids: !ids) inputs [{tpc.name = "ids"}]
      outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[batch, 8]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of #batch {
        %0 = func.call @stage_0(%ids) : (!ids) -> !part
        tpc.send %0 to 1 : !part
        %1 = tpc.recv from 1 : !part
        tpc.output 0, %1 : !part
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of #batch {
        %0 = tpc.recv from 0 : !part
        tpc.send %0 to 0 : !part
      }
    }
  }
}
// CHECK-LABEL: "groups": [
// CHECK:         "groups": 6,
// CHECK-NEXT:    "members": [
// CHECK-NEXT:      0,
// CHECK-NEXT:      1
// CHECK:         "over": [
// CHECK-NEXT:      "tp"
// CHECK:       "hash": "{{[0-9a-f]+}}",
// CHECK:       "period": 2,
// CHECK-NEXT:  "place": 0,
// CHECK-NEXT:  "times": [
// CHECK-NEXT:    0,
// CHECK-NEXT:    1
// CHECK:       "functions": {
// CHECK-NEXT:    "layer": [
// CHECK:           "op": "all_reduce",
// CHECK-NEXT:      "over": [
// CHECK-NEXT:        "tp"
// CHECK:           "reduction": "sum",
// CHECK:         "stage_0": [
// CHECK-NEXT:      {
// CHECK-NEXT:        "call": "layer",
// CHECK-NEXT:        "times": 2
// CHECK:       "loop": {
// CHECK-NEXT:    "axes": [],
// CHECK-NEXT:    "factors": [
// CHECK-NEXT:      {
// CHECK-NEXT:        "axes": [
// CHECK-NEXT:          "dp",
// CHECK-NEXT:          "mb"
// CHECK-NEXT:        ],
// CHECK-NEXT:        "size": "batch"

// -----

// Each of 3 replicas has 2 of 6 samples. So all run the same iterations, and may communicate.
!six = tensor<2xf32, #tpc.dist<[6{dp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 3, pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<6xf32>) inputs [{tpc.name = "x"}]
      outputs [{name = "y", type = tensor<6xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches of #tpc.dim<6{dp, mb}> {
        %0 = tpc.local_slice %x over ["dp"] dim 0 : tensor<6xf32> -> !six
        %1 = tpc.all_gather %0 over ["dp"] dim 0 : !six -> tensor<6xf32>
        tpc.output 0, %1 : tensor<6xf32>
      }
    }
  }
}
// CHECK: "op": "all_gather"

// -----

// A branch that all members of the group take, and a branch with the same communication on both
// sides.
!x = tensor<4xf32>
!half = tensor<2xf32, #tpc.dist<[4{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !x}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %zero = arith.constant 0 : index
        %one = arith.constant 0 : i64
        %c = tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{dp}], local>>
        %mine = tensor.extract %c[%zero] : tensor<1xi64, #tpc.dist<[2{dp}], local>>
        %is = arith.cmpi eq, %mine, %one : i64
        %h = tpc.local_slice %x over ["tp"] dim 0 : !x -> !half
        %0 = scf.if %is -> !x {
          %1 = tpc.all_gather %h over ["tp"] dim 0 : !half -> !x
          scf.yield %1 : !x
        } else {
          scf.yield %x : !x
        }
        %t = tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{tp}], local>>
        %my = tensor.extract %t[%zero] : tensor<1xi64, #tpc.dist<[2{tp}], local>>
        %first = arith.cmpi eq, %my, %one : i64
        %2 = scf.if %first -> !x {
          %3 = tpc.all_gather %h over ["tp"] dim 0 : !half -> !x
          scf.yield %3 : !x
        } else {
          %3 = tpc.all_gather %h over ["tp"] dim 0 : !half -> !x
          scf.yield %3 : !x
        }
        %4 = tpc.add %0, %2 : !x, !x -> !x
        tpc.output 0, %4 : !x
      }
    }
  }
}
// CHECK: "else": []
