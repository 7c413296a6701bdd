//===- Shared.cpp - what a C compiler adds to shared objects --------------===//
//
// tpc_shared.o: linked into everything that the compiler's own linker makes, without a C compiler
// and therefore without the C library's crti.o, crtbeginS.o and libc_nonshared.a. What those would
// bring: __dso_handle, by which destructors of static objects are registered, and atexit. These are
// called when the process ends, for the linker says that the object is never unloaded.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

extern "C" int __cxa_atexit(void (*function)(void *), void *argument, void *library);
extern "C" __attribute__((visibility("hidden"))) int atexit(void (*function)()) {
  return __cxa_atexit(reinterpret_cast<void (*)(void *)>(function), nullptr, &__dso_handle);
}
