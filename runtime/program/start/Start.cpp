//===- Start.cpp - Entry point of executables -----------------------------===//
//
// tpc_start.o is linked into executables in addition to tpc_shared.o. An executable is a shared
// object with an entry point, like the C library's libc.so.6: processes can load it, which the
// dynamic linker rejects for position-independent executables. Therefore this file specifies the
// dynamic linker, which the linker does only for executables. It also defines _start, which is
// otherwise part of crt1.o, and which calls the C library. Constructors need no code: since version
// 2.34, glibc calls those of the main program itself.
//
//===----------------------------------------------------------------------===//

#include "tpc/runtime.h"

#if defined(__x86_64__)
#define DYNAMIC_LINKER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define DYNAMIC_LINKER "/lib/ld-linux-aarch64.so.1"
#endif
extern "C" __attribute__((section(".interp"), used, retain)) const char tpc_dynamic_linker[] =
    DYNAMIC_LINKER;

int main(int argc, char **argv) { return tpc_main(&tpc_program_v7, argc, argv); }

#if defined(__x86_64__)
// On entry, rdx is a function for atexit, and the stack contains argc, then argv. The C library
// expects main, argc, argv, init, fini, rtld_fini, stack_end; a stack aligned to 16 bytes; and a
// zero frame pointer, where unwinding ends.
__asm__(R"(
    .text
    .globl _start
    .type _start, @function
_start:
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    xorl %ebp, %ebp
    movq %rdx, %r9
    popq %rsi
    movq %rsp, %rdx
    andq $-16, %rsp
    pushq %rax
    pushq %rsp
    xorl %r8d, %r8d
    xorl %ecx, %ecx
    leaq main(%rip), %rdi
    call *__libc_start_main@GOTPCREL(%rip)
    hlt
    .cfi_endproc
    .size _start, .-_start
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .globl _start
    .type _start, %function
_start:
    .cfi_startproc
    .cfi_undefined x30
    mov x29, #0
    mov x30, #0
    mov x5, x0
    ldr x1, [sp, #0]
    add x2, sp, #8
    mov x6, sp
    adrp x0, main
    add x0, x0, :lo12:main
    mov x3, #0
    mov x4, #0
    bl __libc_start_main
    brk #0
    .cfi_endproc
    .size _start, .-_start
)");
#endif
