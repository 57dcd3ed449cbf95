"""The version of pysbx and of pysbx-runtime. The Makefile and pyproject.toml read it from here."""

VERSION = "0.2.0"
