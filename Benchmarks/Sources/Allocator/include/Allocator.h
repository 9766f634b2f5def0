// SPDX-License-Identifier: Apache-2.0

#ifndef ALLOCATOR_H
#define ALLOCATOR_H

/// The number of allocations of this thread so far; 0 if the system does not count them.
unsigned long allocationsOfThisThread(void);

/// Returns memory that the allocator keeps in reserve to the system, if it can.
void returnFreeMemory(void);

#endif
