// SPDX-License-Identifier: Apache-2.0

// The commit of the program. `make dist` names a folder with the generated header (scripts/dist); sources without git,
// and `swift build` by itself, have none. This is C because only C can ask whether a file exists.

#include "CBuildCommit.h"

#if __has_include(<quittance-commit.h>)
#include <quittance-commit.h>
#else
#define QUITTANCE_COMMIT ""
#endif

const char *quittance_build_commit(void) { return QUITTANCE_COMMIT; }
