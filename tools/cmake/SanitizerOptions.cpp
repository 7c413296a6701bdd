//===- SanitizerOptions.cpp - what AddressSanitizer has to overlook --------===//
//
// libMLIR.so and libLLVM.so are not instrumented: containers and arenas that they share with our
// code look poisoned to code that is. Linked into all programs that use them, with sanitizers.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "detect_container_overflow=0:allow_user_poisoning=0";
}
