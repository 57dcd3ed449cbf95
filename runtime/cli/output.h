/* Standard output of commands: a full disk or a closed pipe is an error, not silence. */
#ifndef PYSBX_CLI_OUTPUT_H
#define PYSBX_CLI_OUTPUT_H

#include "cli/options.h"

struct error;
struct json_out;

/* How lists are shown: --format. */
enum output_format { OUTPUT_TABLE, OUTPUT_JSON };
extern const struct option_choice output_formats[];

/* Print the document and a newline. 0 or a negative errno. */
int output_json(struct json_out *out, struct error *err);

/* Flush what was printed with stdio. 0 or a negative errno. */
int output_finish(struct error *err);

#endif
