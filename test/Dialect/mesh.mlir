// The two forms of #tpc.mesh, and its errors.
// RUN: tpc-opt %s -split-input-file -verify-diagnostics -o %t
// RUN: FileCheck %s < %t
// RUN: tpc-opt %t -split-input-file | FileCheck %s

// CHECK: tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 2, vpp = 2, gpus_per_node = 4>
module attributes {tpc.mesh = #tpc.mesh<gpus_per_node = 4, tp = 2, vpp = 2, pp = 2, mb = 2>} {}

// -----

// CHECK: tpc.mesh = #tpc.mesh<mb = 1>
module attributes {tpc.mesh = #tpc.mesh<mb = 1>} {}

// -----

// CHECK: #tpc.mesh<atoms = [tp_etp = 2, tp_ep = 2, dp_ep = 3], views = {dp = [dp_ep], ep = [tp_ep, dp_ep], etp = [tp_etp], tp = [tp_etp, tp_ep]}, mb = 2>
module attributes {tpc.mesh = #tpc.mesh<
  atoms = [tp_etp = 2, tp_ep = 2, dp_ep = 3],
  views = {tp = [tp_etp, tp_ep], dp = [dp_ep], ep = [tp_ep, dp_ep], etp = [tp_etp]}, mb = 2>} {}

// -----

// A list of atoms without views is the short form. A view may be empty.
// CHECK: tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2, pp = 2], views = {}>} {}

// -----

// CHECK: tpc.mesh = #tpc.mesh<atoms = [tp = 2], views = {etp = []}, mb = 1>
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2], views = {etp = []}>} {}

// -----

// expected-error @+1 {{atom 'tp' of the mesh is given twice}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2, tp = 2]>} {}

// -----

// expected-error @+1 {{'mb' of the mesh is given twice}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, mb = 4, mb = 1>} {}

// -----

// expected-error @+1 {{'mb' is the number of micro-batches, not an atom of the mesh}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2, mb = 2]>} {}

// -----

// expected-error @+1 {{view 'ep' has the atom "tp_ep", which the mesh does not have}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2], views = {ep = [tp_ep]}>} {}

// -----

// expected-error @+1 {{view 'ep' has the atom "tp" twice}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2], views = {ep = [tp, tp]}>} {}

// -----

// expected-error @+1 {{view 'tp' is also an atom of the mesh}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2, dp = 2], views = {tp = [tp, dp]}>} {}

// -----

// expected-error @+1 {{view 'ep' is given twice}}
module attributes {tpc.mesh = #tpc.mesh<atoms = [tp = 2], views = {ep = [tp], ep = [tp]}>} {}

// -----

// expected-error @+1 {{expected '['}}
module attributes {tpc.mesh = #tpc.mesh<atoms = 4>} {}

// -----

// expected-error @+1 {{expected integer value}}
module attributes {tpc.mesh = #tpc.mesh<tp = [2]>} {}

// -----

// expected-error @+1 {{must be a #tpc.mesh, not "tp2"}}
module attributes {tpc.mesh = "tp2"} {}
