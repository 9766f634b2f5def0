// SPDX-License-Identifier: Apache-2.0

// Debian and Ubuntu keep the headers in a folder of their own. They need no pkg-config this way.
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#include <libpq-fe.h>
#endif
