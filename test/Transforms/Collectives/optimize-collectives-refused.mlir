// RUN: tpc-opt %s --tpc-optimize-collectives --verify-diagnostics
// RUN: tpc-opt %s --tpc-coalesce-collectives --verify-diagnostics

// expected-error @below {{has no tpc.mesh: run tpc-assign-shardings and the passes up to tpc-localize first}}
module {
}
