/* The annotations run.pysbx.* of a container, in one place: a new one is a constant here and a row of the
 * table in annotations.c. Others (run.oci.*, org.systemd.property.*) belong to other runtimes, too, and are
 * not judged. */
#ifndef PYSBX_SPEC_ANNOTATIONS_H
#define PYSBX_SPEC_ANNOTATIONS_H

struct json_out;
struct str_map;

#define WARM_ANNOTATION_MODE      "run.pysbx.warm"      /* auto, require, off */
#define WARM_ANNOTATION_PRELOAD   "run.pysbx.preload"   /* names of modules, separated by commas or blanks */
#define LANDLOCK_ANNOTATION       "run.pysbx.landlock"  /* "default" or a ruleset */
#define HOOK_ANNOTATION_UNTRUSTED "run.pysbx.untrusted" /* read by the hook require-sandbox, not here */

/* Those of run.pysbx.* that this release does not know are no error, for a newer one may: each is a warning
 * in the log. Call it once a command, and not before what may begin the command anew (base/libraries.h). */
void annotations_warn(const struct str_map *annotations);

/* The same as "unknownAnnotations" in the object that is being written; nothing when there is none. */
void annotations_describe(const struct str_map *annotations, struct json_out *out);

#endif
