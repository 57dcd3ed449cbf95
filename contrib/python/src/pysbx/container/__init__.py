"""One container, or process, from its bundle to its end."""
