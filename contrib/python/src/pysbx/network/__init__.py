"""The way out of a sandbox to the hosts that its caller allows."""
