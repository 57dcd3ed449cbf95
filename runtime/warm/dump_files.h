/* The files that a stopped process has mapped. */
#ifndef PYSBX_WARM_DUMP_FILES_H
#define PYSBX_WARM_DUMP_FILES_H

struct arena;
struct dump_areas;
struct error;
struct image_parts;

/* Open each mapped file beneath `root`, a descriptor, and put its path and identity into the parts; the
 * areas' indices become those of that table. Areas of a file that is not there are saved by their content
 * (DUMP_BY_CONTENT); -ENOTSUP if that cannot be, or for what is no regular file. */
int dump_files(int root, struct dump_areas *areas, struct arena *a, struct image_parts *parts,
               struct error *err);

#endif
