//===- SanitizerOptions.cpp - Default options of AddressSanitizer ---------===//
//
// libMLIR.so and libLLVM.so are not instrumented, so AddressSanitizer would report containers and
// arenas that they share with instrumented code. This file is linked into all programs that use
// these libraries, in sanitizer builds.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "detect_container_overflow=0:allow_user_poisoning=0";
}
