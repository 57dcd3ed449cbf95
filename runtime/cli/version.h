/* What this build is. */
#ifndef PYSBX_CLI_VERSION_H
#define PYSBX_CLI_VERSION_H

/* What --version prints: name and version, commit, newest specification, what it was built with. Engines look
 * for the lines "commit: " and "spec: ". */
extern const char version_text[];

/* The version and the commit it was built from ("unknown" outside a repository). */
extern const char version_number[], version_commit[];

/* Both, to tell builds from each other. */
extern const char version_build[];

/* Versions of the runtime specification that are understood. */
#define VERSION_SPEC_MIN "1.0.0"
#define VERSION_SPEC_MAX "1.3.0"

#endif
