// Values that are hoisted out of the micro-batch loop must equal those of every iteration. Each
// other program is one edit away from good.mlir.
// RUN: split-file %s %t
// DEFINE: %{unsafe} = not tpc-opt --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 -o /dev/null 2>&1
// DEFINE: %{proof} = "--tpc-verify-equivalence=reference=%t/model.mlir interpret=false"
// DEFINE: %{run} = "--tpc-verify-equivalence=reference=%t/model.mlir symbolic=false"
// RUN: tpc-opt %t/good.mlir %{proof} -o /dev/null
// RUN: tpc-opt %t/good.mlir %{run} -o /dev/null
// RUN: tpc-opt %t/good.mlir --tpc-verify-comms=certificate=%t/proof.json -o /dev/null
// RUN: tpc-check-certificate %t/proof.json | FileCheck %s --check-prefix=CERTIFICATE
// RUN: FileCheck %s --check-prefix=EVENTS < %t/proof.json
// CERTIFICATE: no deadlock
// The layer's collective is in the loop, the prologue's is before it.
// EVENTS: "call": "prologue"
// EVENTS: "loop":

// The slice of the first micro-batch is used outside of the loop. The dialect rejects it in ops of
// the stage, and the proof also in called functions.
// RUN: not tpc-opt %t/first.mlir 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: %{unsafe} %t/first.mlir %{proof} | FileCheck %s --check-prefix=FIRST-PROOF
// RUN: %{unsafe} %t/first.mlir %{run} | FileCheck %s --check-prefix=FIRST-SMALL
// RUN: %{unsafe} %t/inside.mlir %{proof} | FileCheck %s --check-prefix=INSIDE
// FIRST: error: 'tpc.local_slice' op creates a value that is split over mb, {{.*}}, outside of tpc.micro_batches
// FIRST-PROOF: (tpc.local_slice) is computed once, before the micro-batch loop, but {{.*}} is one micro-batch's part: other iterations would read the first's
// FIRST-SMALL: (tpc.local_slice): run at small sizes, there is no micro-batch here for the type
// INSIDE: (func.call) is computed once, before the micro-batch loop

// The results are swapped, or an iteration reads an input instead of the value computed from it.
// RUN: not tpc-opt %t/swapped.mlir %{proof} 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not tpc-opt %t/swapped.mlir %{run} 2>&1 | FileCheck %s --check-prefix=WRONG-SMALL
// RUN: not tpc-opt %t/dropped.mlir %{proof} 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not tpc-opt %t/dropped.mlir %{run} 2>&1 | FileCheck %s --check-prefix=WRONG-SMALL
// WRONG: does not compute what the model computes
// WRONG-SMALL: run at small sizes, element {{.*}} of output 0 is not what the model computes

// A value is read before it is computed.
// RUN: %{unsafe} %t/late.mlir %{proof} | FileCheck %s --check-prefix=LATE
// RUN: %{unsafe} %t/late.mlir %{run} | FileCheck %s --check-prefix=LATE-SMALL
// LATE: (func.call) is after the micro-batch loops: move values that iterations share before them
// LATE-SMALL: (func.call): run at small sizes, it takes a value that is not computed before

// Transfers and outputs must be in the loop.
// RUN: not tpc-opt %t/output.mlir %{proof} 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not tpc-opt %t/output.mlir %{run} 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: (tpc.output){{.*}} is outside of tpc.micro_batches

// Only some ranks execute a collective: those of one branch, or of one stage.
// RUN: not tpc-opt %t/branch.mlir --tpc-verify-comms -o /dev/null 2>&1 | FileCheck %s --check-prefix=BRANCH
// RUN: not tpc-opt %t/stage.mlir --tpc-verify-comms -o /dev/null 2>&1 | FileCheck %s --check-prefix=STAGE
// BRANCH: not all members of its group over tp reach it: rank (tp 0) and rank (tp 1) may take different branches
// STAGE: rank (pp 0) takes part, but rank (pp 1), which is in the same group over pp, does not

//--- model.mlir
!p = tensor<?xf32, #tpc.dist<[s]>>
!x = tensor<?x?xf32, #tpc.dist<[b, s]>>
func.func @main(%x: !x {tpc.name = "x"}, %p: !p {tpc.name = "p"}) -> (!x {tpc.name = "y"}) {
  %e = tpc.exp %p : !p -> !p
  %c = tpc.cos %e : !p -> !p
  %s = tpc.sin %e : !p -> !p
  %0 = tpc.mul %x, %c : !x, !p -> !x
  %1 = tpc.add %0, %s : !x, !p -> !x
  return %1 : !x
}
//--- good.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- first.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @stage_0(%x: !one, %p: !p) -> !one {
    %e = tpc.exp %p : !p -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    %1 = tpc.mul %x, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%0, %p) : (!one, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- inside.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @inner(%x: !x) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    return %0 : !one
  }
  func.func private @prologue(%x: !x, %p: !p) -> !p {
    %0 = call @inner(%x) : (!x) -> !one
    %e = tpc.exp %p : !p -> !p
    return %e : !p
  }
  func.func private @stage_0(%x: !x, %e: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %e = func.call @prologue(%x, %p) : (!x, !p) -> !p
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %e) : (!x, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- swapped.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %s, %c : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- dropped.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %p) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- late.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
    }
  }
}
//--- output.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %e = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.output 0, %x : !x
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- branch.mlir
!p = tensor<?xf32, #tpc.dist<[s], local>>
!part = tensor<?xf32, #tpc.dist<[s{tp}], local>>
!x = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  func.func private @prologue(%p: !p) -> (!p, !p) {
    %0 = tpc.local_slice %p over ["tp"] dim 0 : !p -> !part
    %1 = tpc.exp %0 : !part -> !part
    %rank = tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{tp}], local>>
    %zero = arith.constant 0 : index
    %mine = tensor.extract %rank[%zero] : tensor<1xi64, #tpc.dist<[2{tp}], local>>
    %first = arith.constant 0 : i64
    %is = arith.cmpi eq, %mine, %first : i64
    %e = scf.if %is -> !p {
      %g = tpc.all_gather %1 over ["tp"] dim 0 : !part -> !p
      scf.yield %g : !p
    } else {
      scf.yield %p : !p
    }
    %c = tpc.cos %e : !p -> !p
    %s = tpc.sin %e : !p -> !p
    return %c, %s : !p, !p
  }
  func.func private @stage_0(%x: !x, %c: !p, %s: !p) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
    %1 = tpc.mul %0, %c : !one, !p -> !one
    %2 = tpc.add %1, %s : !one, !p -> !one
    return %2 : !one
  }
  tpc.pipeline @main(%x: !x, %p: !p) inputs [{tpc.name = "x"}, {tpc.name = "p"}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      %h:2 = func.call @prologue(%p) : (!p) -> (!p, !p)
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %h#0, %h#1) : (!x, !p, !p) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}
//--- stage.mlir
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2>} {
  func.func private @prologue(%x: !x) -> !x {
    %0 = tpc.broadcast %x over ["pp"] root 0 : !x -> !x
    return %0 : !x
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !x}] {
    tpc.stage 0 {
      %h = func.call @prologue(%x) : (!x) -> !x
      tpc.micro_batches of <2{mb}> {
        tpc.send %h to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %y = tpc.recv from 0 : !x
        tpc.output 0, %y : !x
      }
    }
  }
}
