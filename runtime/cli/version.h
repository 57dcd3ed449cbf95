/* Identity of this build. */
#pragma once

/* Output of --version: name and version, commit, newest specification, enabled libraries. Engines search for
 * the lines "commit: " and "spec: ". */
extern const char version_text[];

/* The version, and the commit of the build ("unknown" outside a repository). */
extern const char version_number[], version_commit[];

/* Version and commit, to distinguish builds. */
extern const char version_build[];
