// SPDX-License-Identifier: Apache-2.0

#ifndef C_OPENAPI_H
#define C_OPENAPI_H

#include <stddef.h>

/// The bytes of `docs/openapi.json`.
const unsigned char *quittance_openapi(void);

/// The number of these bytes.
size_t quittance_openapi_length(void);

#endif
