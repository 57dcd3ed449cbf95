"""The version of pysbx and of pysbx-runtime. The Makefile and hatch_build.py read it from here."""

VERSION = "0.3.0.dev0"
