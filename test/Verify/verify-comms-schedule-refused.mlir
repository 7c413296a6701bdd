// RUN: tpc-opt %s --tpc-verify-comms --split-input-file --verify-diagnostics

// Two ranks with two chunks each and two micro-batches.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <batch{mb}> {
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// An event is missing.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <batch{mb}> {
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      // expected-error @+1 {{stage 0: the schedule has no event SF2.1}}
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// An event occurs twice.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      // expected-error @+1 {{stage 0: the schedule's event SF0.0 occurs twice}}
      tpc.micro_batches of <batch{mb}> {
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// A chunk computes before it receives.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, F0.1, SF0.1, F2.0, RF2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <batch{mb}> {
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      // expected-error @+1 {{stage 0: the schedule's event F2.0 comes before RF2.0, which must be earlier}}
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// There are two micro-batches.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, F0.2, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      // expected-error @+1 {{stage 0: the schedule's event F0.2 is of a micro-batch that does not exist: there are 2}}
      tpc.micro_batches of <batch{mb}> {
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// The first rank sends micro-batch 1 first.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, F0.1, SF0.1, SF0.0, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <batch{mb}> {
        // expected-error @+1 {{tpc.send '': rank (pp 0) and rank (pp 1) have different messages next: of micro-batch 1 in chunk 0 of the channel, and of micro-batch 0 in chunk 0}}
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        // expected-note @+1 {{is the other side}}
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}

// -----

// Without buffers, both ranks send and neither receives.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[batch{mb}], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[batch]>>}] schedule <"interleaved", [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, SF1.0, RF1.1, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <batch{mb}> {
        // expected-error @+2 {{ranks wait for each other in a cycle}}
        // expected-note @+1 {{rank (pp 0) waits at}}
        tpc.send %x to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 1 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.send %a to 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
      tpc.micro_batches of <batch{mb}> {
        %a = tpc.recv from 0 : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
        tpc.output 0, %a : tensor<?xf32, #tpc.dist<[batch{mb}], local>>
      }
    }
  }
}
