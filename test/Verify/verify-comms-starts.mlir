// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-comms
// RUN: tpc-opt %s --split-input-file | FileCheck %s

// Two operations in flight, with waits in reverse order. Text round-trips.
!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  // CHECK-LABEL: @f
  // CHECK: tpc.all_reduce_start %arg0 over ["tp"] :
  // CHECK: tpc.all_reduce_start %arg0 over ["tp"] chunks 4 grain 2 :
  // CHECK: tpc.wait %1
  func.func private @f(%x: !sum) -> !all {
    %0 = tpc.all_reduce_start %x over ["tp"] : !sum -> !all
    %1 = tpc.all_reduce_start %x over ["tp"] chunks 4 grain 2 : !sum -> !all
    %2 = tpc.wait %1 : !all
    %3 = tpc.wait %0 : !all
    %4 = tpc.add %2, %3 : !all, !all -> !all
    return %4 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [{name = "y", type = tensor<8xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %0 = func.call @f(%x) : (!sum) -> !all
        tpc.output 0, %0 : !all
      }
    }
  }
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    // expected-error @+1 {{is never waited for}}
    %0 = tpc.all_reduce_start %x over ["tp"] : !sum -> !all
    %1 = tpc.all_reduce %x over ["tp"] : !sum -> !all
    return %1 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!sum) -> !all }
  }
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    // expected-error @+1 {{is waited for 2 times}}
    %0 = tpc.all_reduce_start %x over ["tp"] : !sum -> !all
    // expected-note @+1 {{here}}
    %1 = tpc.wait %0 : !all
    // expected-note @+1 {{here}}
    %2 = tpc.wait %0 : !all
    %3 = tpc.add %1, %2 : !all, !all -> !all
    return %3 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!sum) -> !all }
  }
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    %0 = tpc.all_reduce_start %x over ["tp"] : !sum -> !all
    // expected-error @+1 {{uses the result of a collective that is in flight; only tpc.wait may}}
    %1 = tpc.relu %0 : !all -> !all
    %2 = tpc.wait %0 : !all
    %3 = tpc.add %1, %2 : !all, !all -> !all
    return %3 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!sum) -> !all }
  }
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    %0 = tpc.all_reduce %x over ["tp"] : !sum -> !all
    // expected-error @+1 {{waits for a value that no operation has started}}
    %1 = tpc.wait %0 : !all
    return %1 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!sum) -> !all }
  }
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    %0 = tpc.all_reduce_start %x over ["tp"] chunks 8 grain 1 : !sum -> !all
    %1 = tpc.wait %0 : !all
    return %1 : !all
  }
  // Operations stay in flight during a call.
  func.func private @g(%x: !sum) -> !all {
    %0 = tpc.all_reduce_start %x over ["tp"] chunks 8 grain 1 : !sum -> !all
    %1 = tpc.all_reduce_start %x over ["tp"] : !sum -> !all
    // expected-error @+1 {{17 operations are in flight here, more than 16}}
    %2 = func.call @f(%x) : (!sum) -> !all
    %3 = tpc.wait %0 : !all
    %4 = tpc.wait %1 : !all
    %5 = tpc.add %3, %4 : !all, !all -> !all
    return %5 : !all
  }
  tpc.pipeline @main(%x: !sum) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @g(%x) : (!sum) -> !all }
  }
}
