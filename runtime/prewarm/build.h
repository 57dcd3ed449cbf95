/* Building the snapshot for a start. */
#pragma once

struct arena;
struct error;
struct prewarm;

/* Build the snapshot that the store has reserved for this start (STORE_BUILD), and give it to the store.
 * Return 0 or a negative errno; the store then remembers the reason. */
int build_snapshot(struct arena *a, struct prewarm *prewarm, struct error *err);
