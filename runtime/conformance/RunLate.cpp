//===- RunLate.cpp - Runner of programs on the late device ----------------===//
//
//   tpc-run-late PROGRAM [arguments of the program…]
//
// PROGRAM is the output of `tpcc --emit=obj`, linked as a shared library. Its ranks compute on the
// device of LateDevice.h. All other parts are those of an executable.
//
//===----------------------------------------------------------------------===//

#include "LateDevice.h"
#include <cstdio>
#include <dlfcn.h>

int main(int argc, char **argv) {
  void *library = argc < 2 ? nullptr : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void *program = library ? dlsym(library, "tpc_program_v7") : nullptr;
  if (!program) {
    const char *why = argc < 2 ? nullptr : dlerror();
    std::fprintf(stderr, "usage: tpc-run-late PROGRAM …: %s\n", why ? why : "no program");
    return 2;
  }
  tpc::rt::selectDevices(tpc::rt::conformance::lateDevices());
  return tpc_main(static_cast<const tpc_program *>(program), argc - 1, argv + 1);
}
