// SPDX-License-Identifier: Apache-2.0

// Valgrind writes into the mask of sigsuspend. libdispatch keeps its mask in read-only memory, so the call gets a copy.

#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int sigsuspend(const sigset_t *mask) {
    sigset_t copy = *mask;
    // The kernel's masks have eight bytes.
    return (int)syscall(SYS_rt_sigsuspend, &copy, 8);
}
