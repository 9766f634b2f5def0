// SPDX-License-Identifier: Apache-2.0

#ifndef C_CONSOLE_H
#define C_CONSOLE_H

#include <stddef.h>

/// The bytes of a file in `files`: 0 is the page, 1 its style sheet, 2 its script, 3 its icon.
const unsigned char *quittance_console(int file);

/// The number of these bytes.
size_t quittance_console_length(int file);

#endif
