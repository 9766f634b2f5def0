// SPDX-License-Identifier: Apache-2.0

#include "Allocator.h"

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

static _Thread_local unsigned long count;

unsigned long allocationsOfThisThread(void) {
    return count;
}

void returnFreeMemory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

// A program's own functions of these names stand before those of glibc, which has its own under a second name. One more
// instruction a call, and no call waits for another thread's, so that times remain what they are.
#ifdef __GLIBC__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size) {
    count++;
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count++;
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
    count++;
    return __libc_realloc(memory, size);
}
#endif
