// RUN: tpc-opt %s --tpc-verify-bounds="budget=100 symbol-max=2"
// RUN: not tpc-opt %s --tpc-verify-bounds="budget=63 symbol-max=2" 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not tpc-opt %s --tpc-verify-bounds="budget=100 symbol-max=1000000000000000000" 2>&1 | FileCheck %s --check-prefix=SYMBOL

// BUDGET: of at least 64 bytes, more than the budget of 63 for one value
// SYMBOL: of up to 64000000000000000000 bytes, more than 64 bits can count (9223372036854775807); constrain its sizes (symbols without a constraint are taken to be up to 1000000000000000000)
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[s, 16]>>) {
  return
}
