/* Standard output of commands. A full disk or a closed pipe is reported as an error. */
#pragma once

#include "cli/options.h"

struct error;
struct json_out;

/* Format of lists: --format. */
enum output_format { OUTPUT_TABLE, OUTPUT_JSON };
extern const struct option_choice output_formats[];

/* Print the document and a newline. 0 or negative errno. */
int output_json(struct json_out *out, struct error *err);

/* Flush the output of stdio. 0 or negative errno. */
int output_finish(struct error *err);
