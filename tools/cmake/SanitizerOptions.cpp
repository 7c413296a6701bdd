//===- SanitizerOptions.cpp - Default options of AddressSanitizer ---------===//
//
// libMLIR.so and libLLVM.so are not instrumented, so containers and arenas that they share with
// instrumented code look poisoned to it. Linked into all programs that use them, with sanitizers.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "detect_container_overflow=0:allow_user_poisoning=0";
}
