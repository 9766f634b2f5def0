// SPDX-License-Identifier: Apache-2.0

// The files of the console, which asks `/v1` from a browser. This is C because only C can take the bytes of a file into
// the program.

#include "CConsole.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char page[] = {
#embed "files/console.html"
};

static const unsigned char style[] = {
#embed "files/console.css"
};

static const unsigned char script[] = {
#embed "files/console.js"
};

static const unsigned char icon[] = {
#embed "files/icon.svg"
};

static const unsigned char *const files[] = {page, style, script, icon};
static const size_t lengths[] = {sizeof page, sizeof style, sizeof script, sizeof icon};

const unsigned char *quittance_console(int file) { return files[file]; }

size_t quittance_console_length(int file) { return lengths[file]; }
