// RUN: split-file %s %t
// RUN: tpc-opt %t/good.mlir | FileCheck %s
// RUN: not tpc-opt %t/kind.mlir 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not tpc-opt %t/name.mlir 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not tpc-opt %t/pair.mlir 2>&1 | FileCheck %s --check-prefix=PAIR
// RUN: not tpc-opt %t/negative.mlir 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not tpc-opt %t/axes.mlir 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not tpc-opt %t/node.mlir 2>&1 | FileCheck %s --check-prefix=NODE

//--- good.mlir
// CHECK: tpc.links = {axes = {tp = [1.000000e-05, 0.000000e+00]}, inter_node =
// CHECK-SAME: tpc.mesh = #tpc.mesh<tp = 4, mb = 1, gpus_per_node = 2>
module attributes {tpc.mesh = #tpc.mesh<tp = 4, mb = 1, gpus_per_node = 2>,
                   tpc.links = {inter_node = [1.0e-5, 2.0e-11], axes = {tp = [1.0e-5, 0.0]}}} {}

//--- kind.mlir
// KIND: 'tpc.links' must be a dictionary
module attributes {tpc.links = 1} {}

//--- name.mlir
// NAME: 'tpc.links': there is no link 'rack': expected intra_node, inter_node or axes
module attributes {tpc.links = {rack = [1.0, 1.0]}} {}

//--- pair.mlir
// PAIR: 'tpc.links': 'intra_node' must be [seconds, seconds per byte], two numbers that are not negative, not [1.000000e+00]
module attributes {tpc.links = {intra_node = [1.0]}} {}

//--- negative.mlir
// NEGATIVE: 'tpc.links': 'dp' must be [seconds, seconds per byte]
module attributes {tpc.links = {axes = {dp = [-1.0, 1.0]}}} {}

//--- axes.mlir
// AXES: 'tpc.links': 'axes' must be a dictionary
module attributes {tpc.links = {axes = [1.0, 1.0]}} {}

//--- node.mlir
// NODE: gpus_per_node must be at least 1
module attributes {tpc.mesh = #tpc.mesh<tp = 4, mb = 1, gpus_per_node = 0>} {}
