//===- NoTarget.cpp - Initialization of the targets that are not linked ---===//
//
// TPCBuild.cmake defines the functions that initialize LLVM's other targets as this one.
//
//===----------------------------------------------------------------------===//

extern "C" void tpcNoTarget() {}
