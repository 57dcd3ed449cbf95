"""This machine: its features, installations, and what the package keeps on disk."""
