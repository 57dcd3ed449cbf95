"""Static analysis of source text: advice about code, and a first look at it, before it runs.

It is not a barrier, because Python code can hide any call from an analysis. The barrier is the container. The analysis
runs in the sandbox because parsing hostile text is a risk of its own: a parser that crashes or hangs harms only the
sandbox.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from .patterns import PATTERNS, Finding
from .source import Source

FORMAT_ATTRIBUTE = re.compile(r"\{[^{}]*\.(\w+)")


def _imports(source: Source, rules: dict[str, Any]) -> Iterator[Finding]:
    allowed = frozenset(rules.get("allowed", ()))

    def check(name: str, line: int) -> Iterator[Finding]:
        parts = name.split(".")
        if not any(".".join(parts[:end]) in allowed for end in range(1, len(parts) + 1)):
            yield "import", line, f"module '{name}' is not among the allowed ones"

    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from check(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from check(node.module or "", node.lineno)
    for call, name in source.calls():
        first = call.args[0] if call.args else None
        if name in ("__import__", "builtins.__import__", "importlib.import_module"):
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield from check(first.value, call.lineno)
            else:
                yield "import", call.lineno, "a module is imported by a name that only the run knows"


def _calls(source: Source, rules: dict[str, Any]) -> Iterator[Finding]:
    blocked = [name for name in rules.get("blocked", ()) if "*" not in name]
    patterns = [name for name in rules.get("blocked", ()) if "*" in name]

    def is_blocked(name: str) -> bool:
        return name in blocked or any(fnmatchcase(name, pattern) for pattern in patterns)

    for line, name, called in source.uses():
        found = next((one for one in source.candidates(name) if is_blocked(one)), None)
        if found is not None:
            yield "call", line, f"'{found}' is called" if called else f"'{found}' is used"


def _attributes(source: Source, rules: dict[str, Any]) -> Iterator[Finding]:
    blocked = frozenset(rules.get("blocked", ()))
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in blocked:
            yield "attribute", node.lineno, f"attribute '{node.attr}' is a way to the inside of Python"
        elif isinstance(node, ast.Name) and node.id in blocked:
            yield "attribute", node.lineno, f"name '{node.id}' is a way to the inside of Python"
    for call, name in source.calls():
        if name in ("getattr", "setattr", "delattr", "hasattr", "operator.attrgetter"):
            for argument in call.args:
                value = argument.value if isinstance(argument, ast.Constant) else None
                if isinstance(value, str) and blocked.intersection(value.split(".")):
                    yield "attribute", call.lineno, f"attribute '{value}' is a way to the inside of Python"
    for text, value in source.texts():
        if blocked.intersection(FORMAT_ATTRIBUTE.findall(value)):
            yield "format-string", text.lineno, "a format string looks into an object"


def _patterns(source: Source, rules: dict[str, Any]) -> Iterator[Finding]:
    for name in rules.get("rules", ()):
        yield from PATTERNS[name](source)


STAGES = {"imports": _imports, "calls": _calls, "attributes": _attributes, "patterns": _patterns}


def _look(source: Source, name: str, rules: dict[str, Any]) -> list[list[Any]]:
    """Return the findings of one stage, sorted by line."""
    found = {(line, rule, message) for rule, line, message in STAGES[name](source, rules)}
    return [[rules["stage"], rule, line, message] for line, rule, message in sorted(found)]


def analyse(text: str, stages: dict[str, Any], violations: str = "all") -> list[list[Any]]:
    """Return the violations that the stages of a profile find.

    Args:
        text: the source. What cannot be parsed has no findings: running it says why.
        stages: for each name in STAGES, "stage": "enforce", "observe" or "off", and the rules.
        violations: "all", sorted by line. Or "first": the first line of the first stage of STAGES that refuses the
            code, alone. No later stage is looked at, and observed stages only if none refuses it.

    Returns:
        [stage, rule, line, message] each.
    """
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    chosen = {name: stages[name] for name in STAGES if name in stages and stages[name]["stage"] != "off"}
    if violations == "first":
        refusing = (name for name, rules in chosen.items() if rules["stage"] == "enforce")
        refused = next(filter(None, (_look(source, name, chosen[name]) for name in refusing)), None)
        if refused:
            return refused[:1]
    found = [finding for name, rules in chosen.items() for finding in _look(source, name, rules)]
    return sorted(found, key=lambda finding: (finding[2], finding[0], finding[1], finding[3]))
