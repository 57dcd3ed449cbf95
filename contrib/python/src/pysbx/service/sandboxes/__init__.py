"""The sandboxes of a server: jobs, sessions, and what callers may choose and use."""
