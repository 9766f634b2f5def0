// SPDX-License-Identifier: Apache-2.0

// The description of the API, which `make openapi` writes. This is C because only C can take the bytes of a file into
// the program.

#include "COpenAPI.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char document[] = {
#embed "../../docs/openapi.json"
};

const unsigned char *quittance_openapi(void) { return document; }

size_t quittance_openapi_length(void) { return sizeof document; }
