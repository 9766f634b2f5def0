// SPDX-License-Identifier: Apache-2.0

#ifndef C_BUILD_COMMIT_H
#define C_BUILD_COMMIT_H

/// The commit of the sources that were built, or an empty text if the build did not name it.
const char *quittance_build_commit(void);

#endif
