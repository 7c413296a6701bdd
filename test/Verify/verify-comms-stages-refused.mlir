// Messages between stages, their order, and outputs.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-comms

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      %true = arith.constant true
      // expected-note @+1 {{this branch}}
      scf.if %true {
        // expected-error @+1 {{a transfer is in a branch; whether the other stage takes the same branch is unknown}}
        tpc.send %x to 1 : !x
      }
    }
    tpc.stage 1 { %0 = tpc.recv from 0 : !x }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      %true = arith.constant true
      // expected-error @+1 {{a branch communicates with other stages}}
      scf.if %true {
        %0 = tpc.broadcast %x over ["pp"] root 0 : !x -> !x
      }
    }
    tpc.stage 1 { %0 = tpc.broadcast %x over ["pp"] root 0 : !x -> !x }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.send %x to 1 : !x
      // expected-error @+1 {{rank (tp 0, pp 0) sends a value that rank (tp 0, pp 1) never receives}}
      tpc.send %x to 1 : !x
    }
    tpc.stage 1 { %0 = tpc.recv from 0 : !x }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
    }
    tpc.stage 1 {
      // expected-error @+1 {{rank (tp 0, pp 1) waits for a value that rank (tp 0, pp 0) never sends}}
      %0 = tpc.recv from 0 : !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{rank (tp 0, pp 0) takes part, but rank (tp 0, pp 1), which is in the same group over tp and pp, does not}}
      %0 = tpc.broadcast %x over ["pp", "tp"] root 0 : !x -> !x
    }
    tpc.stage 1 {
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{rank (tp 0, pp 0) runs another collective than rank (tp 0, pp 1) in the same group}}
      %0 = tpc.broadcast %x over ["pp"] root 0 : !x -> !x
    }
    tpc.stage 1 {
      // expected-note @+1 {{is the other rank's collective}}
      %0 = tpc.broadcast %x over ["pp"] root 1 : !x -> !x
    }
  }
}

// -----

!x = tensor<?xf32, #tpc.dist<[batch{dp, mb}], local>>
!y = tensor<?xf32, #tpc.dist<[batch{mb, dp}], local>>
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 2, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches {
        // expected-error @+1 {{but rank (dp 0, pp 1) receives 'tensor<?xf32, #tpc.dist<[batch{mb, dp}], local>>'}}
        tpc.send %x to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches {
        // expected-note @+1 {{receives it}}
        %0 = tpc.recv from 0 : !y
      }
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 2, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-error @+1 {{rank (dp 0, pp 0) and rank (dp 0, pp 1) may run this a different number of times}}
        tpc.send %x to 1 : !x
      }
    }
    tpc.stage 1 {
      // expected-note @+1 {{the other side}}
      %0 = tpc.recv from 0 : !x
    }
  }
}

// -----

// Each message has a sender and a receiver, but both stages receive first.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 2, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-error @+2 {{ranks wait for each other in a cycle}}
        // expected-note @+1 {{rank (dp 0, pp 0) waits at tpc.recv}}
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-note @+1 {{rank (dp 0, pp 1) waits at tpc.recv}}
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
    }
  }
}

// -----

// The same with loops: stage 0 sends one value in all iterations first, stage 1 receives the other
// value first.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 3, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-error @+2 {{ranks wait for each other in a cycle}}
        // expected-note @+1 {{rank (dp 0, pp 0) waits at tpc.send}}
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> { tpc.send %x to 2 : !x }
    }
    tpc.stage 1 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-note @+1 {{rank (dp 0, pp 1) waits at tpc.recv}}
        %0 = tpc.recv from 2 : !x
      }
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> { %0 = tpc.recv from 0 : !x }
    }
    tpc.stage 2 {
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-note @+1 {{rank (dp 0, pp 2) waits at tpc.recv}}
        %0 = tpc.recv from 0 : !x
      }
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> { tpc.send %x to 1 : !x }
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  // expected-error @+1 {{output 'y' is delivered by no stage}}
  tpc.pipeline @main() inputs [] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
      // expected-note @+1 {{delivered here first}}
      tpc.output 0, %x : tensor<4xf32>
      // expected-error @+1 {{output 'y' is delivered twice}}
      tpc.output 0, %x : tensor<4xf32>
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
      %true = arith.constant true
      scf.if %true {
        // expected-error @+1 {{an output must not be in a branch, because it may then not be delivered}}
        tpc.output 0, %x : tensor<4xf32>
      }
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<5xf32>}] {
    tpc.stage 0 {
      // expected-error @+1 {{output 'y' is delivered as 'tensor<4xf32>', which is not a slice of the type that the pipeline declares}}
      tpc.output 0, %x : tensor<4xf32>
    }
  }
}

// -----

// Nested calls: 2^17 communications in one iteration.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  func.func private @f0(%x: !x) {
    // expected-error @+1 {{a stage communicates with others more than 100000 times in one iteration}}
    %0 = tpc.broadcast %x over ["pp"] root 0 : !x -> !x
    return
  }
  func.func private @f1(%x: !x) {
    call @f0(%x) : (!x) -> ()
    call @f0(%x) : (!x) -> ()
    return
  }
  func.func private @f2(%x: !x) {
    call @f1(%x) : (!x) -> ()
    call @f1(%x) : (!x) -> ()
    return
  }
  func.func private @f3(%x: !x) {
    call @f2(%x) : (!x) -> ()
    call @f2(%x) : (!x) -> ()
    return
  }
  func.func private @f4(%x: !x) {
    call @f3(%x) : (!x) -> ()
    call @f3(%x) : (!x) -> ()
    return
  }
  func.func private @f5(%x: !x) {
    call @f4(%x) : (!x) -> ()
    call @f4(%x) : (!x) -> ()
    return
  }
  func.func private @f6(%x: !x) {
    call @f5(%x) : (!x) -> ()
    call @f5(%x) : (!x) -> ()
    return
  }
  func.func private @f7(%x: !x) {
    call @f6(%x) : (!x) -> ()
    call @f6(%x) : (!x) -> ()
    return
  }
  func.func private @f8(%x: !x) {
    call @f7(%x) : (!x) -> ()
    call @f7(%x) : (!x) -> ()
    return
  }
  func.func private @f9(%x: !x) {
    call @f8(%x) : (!x) -> ()
    call @f8(%x) : (!x) -> ()
    return
  }
  func.func private @f10(%x: !x) {
    call @f9(%x) : (!x) -> ()
    call @f9(%x) : (!x) -> ()
    return
  }
  func.func private @f11(%x: !x) {
    call @f10(%x) : (!x) -> ()
    call @f10(%x) : (!x) -> ()
    return
  }
  func.func private @f12(%x: !x) {
    call @f11(%x) : (!x) -> ()
    call @f11(%x) : (!x) -> ()
    return
  }
  func.func private @f13(%x: !x) {
    call @f12(%x) : (!x) -> ()
    call @f12(%x) : (!x) -> ()
    return
  }
  func.func private @f14(%x: !x) {
    call @f13(%x) : (!x) -> ()
    call @f13(%x) : (!x) -> ()
    return
  }
  func.func private @f15(%x: !x) {
    call @f14(%x) : (!x) -> ()
    call @f14(%x) : (!x) -> ()
    return
  }
  func.func private @f16(%x: !x) {
    call @f15(%x) : (!x) -> ()
    call @f15(%x) : (!x) -> ()
    return
  }
  func.func private @f17(%x: !x) {
    call @f16(%x) : (!x) -> ()
    call @f16(%x) : (!x) -> ()
    return
  }
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f17(%x) : (!x) -> () }
    tpc.stage 1 { func.call @f17(%x) : (!x) -> () }
  }
}

// -----

// `tpc.schedule` must be the hash of all communication: ranks compare it when they start.
!x = tensor<4xf32>
// expected-error @+1 {{'tpc.schedule' is "0123456789abcdef", but the hash of what the program communicates is}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>, tpc.schedule = "0123456789abcdef"} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 { tpc.send %x to 1 : !x }
    tpc.stage 1 { %0 = tpc.recv from 0 : !x }
  }
}
