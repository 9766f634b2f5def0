// SPDX-License-Identifier: Apache-2.0

#ifndef ALLOCATOR_H
#define ALLOCATOR_H

/// How often this thread has asked the allocator for memory; 0 where that cannot be told.
unsigned long allocationsOfThisThread(void);

/// Gives memory that the allocator keeps for later back to the system, where it can.
void returnFreeMemory(void);

#endif
