//===- Shared.cpp - C compiler support for shared objects -----------------===//
//
// tpc_shared.o is linked into all output of the compiler's own linker, which uses no C compiler and
// therefore no crti.o, crtbeginS.o or libc_nonshared.a. It defines their symbols: __dso_handle,
// which registers destructors of static objects, and atexit. Both run when the process ends,
// because the linker marks the object as never unloaded.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

extern "C" int __cxa_atexit(void (*function)(void *), void *argument, void *library);
extern "C" __attribute__((visibility("hidden"))) int atexit(void (*function)()) {
  return __cxa_atexit(reinterpret_cast<void (*)(void *)>(function), nullptr, &__dso_handle);
}
