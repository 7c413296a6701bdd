// Errors in the options of the pass, not in the program.
// RUN: not tpc-opt %s --tpc-verify-equivalence 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not tpc-opt %s --tpc-verify-equivalence=reference=%t.missing 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not tpc-opt %s --tpc-verify-equivalence=reference=%s 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not tpc-opt %s --tpc-verify-equivalence="reference=%s symbolic=false" 2>&1 | FileCheck %s --check-prefix=EMPTY-SMALL
// RUN: sed 's/max = 8/max = 9/' %S/Inputs/verify-constraints.mlir > %t.other
// RUN: not tpc-opt %t.other --tpc-verify-equivalence=reference=%S/Inputs/verify-constraints.mlir 2>&1 | FileCheck %s --check-prefix=SIZES
// RUN: tpc-opt %S/Inputs/verify-constraints.mlir --tpc-verify-equivalence=reference=%S/Inputs/verify-constraints.mlir

// NONE: there is no model to compare with: give the program of the model level as reference=FILE
// MISSING: reference: cannot read
// EMPTY: there is no @main to verify
// EMPTY-SMALL: there is no @main to compare with
// SIZES: the program has the 'tpc.constraints' [{{.*}}max = 9{{.*}}], but the model's has the 'tpc.constraints' [{{.*}}max = 8{{.*}}]
module {
}
