"""The options of a sandbox: how they are declared, checked, configured and kept."""
