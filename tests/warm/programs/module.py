# call: -m package a b
# call: -m package.part a
# call: -m json.tool --help
"""Modules and packages run by name."""
