//===- tpcc.cpp - The compiler driver --------------------------------------===//

#include "tpc/Driver/Tpcc.h"

int main(int argc, char **argv) { return tpc::tpccMain(argc, argv); }
