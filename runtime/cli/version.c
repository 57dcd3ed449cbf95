/* The only file that is compiled again when the commit changes, because the Makefile writes version.h. */
#include "cli/version.h"

#include <version.h>

#include "spec/spec.h"

const char version_number[] = PYSBX_VERSION;
const char version_commit[] = PYSBX_COMMIT;
const char version_build[] = PYSBX_VERSION "+" PYSBX_COMMIT;

const char version_text[] = "pysbx-runtime version " PYSBX_VERSION "\n"
                            "commit: " PYSBX_COMMIT "\n"
                            "spec: " SPEC_VERSION "\n"
                            "+SYSTEMD +SELINUX +APPARMOR +CAP +SECCOMP +EBPF +YAJL\n";
