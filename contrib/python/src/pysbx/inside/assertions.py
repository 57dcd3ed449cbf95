"""Functions for assertions that pytest has rewritten, in a sandbox that has no pytest.

The rewritten code calls functions of a module of pytest's by the names below. They get the parts of the expression as
strings, and return the explanation for the AssertionError. The original expression decides whether it is raised.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_REPR = 240


def _saferepr(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # a __repr__ of the user's
        text = f"<{type(value).__name__}: {type(error).__name__} in __repr__>"
    text = text.replace("\n", "\\n")
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR // 2]}...{text[-MAX_REPR // 2 :]}"


def _format_assertmsg(value: object) -> str:
    text = value if isinstance(value, str) else _saferepr(value)
    return text.replace("\n", "\n~").replace("%", "%%")


def _should_repr_global_name(value: object) -> bool:
    return not callable(value)


def _format_boolop(parts: Sequence[str], is_or: int) -> str:
    return f"({(' and ', ' or ')[bool(is_or)].join(parts)})".replace("%", "%%")


def _call_reprcompare(
    operators: Sequence[str], results: Sequence[object], expressions: Sequence[str], values: Sequence[object]
) -> str:
    """Return the text of the first comparison of a chain that is not true."""
    failed = len(results) - 1
    for number, result in enumerate(results):
        try:
            if not result:
                failed = number
                break
        except Exception:  # an array, for example
            failed = number
            break
    return expressions[failed]


def _call_assertion_pass(line: int, original: str, explanation: str) -> None:
    """Do nothing: only a plugin of pytest's hears of assertions that hold."""


def _check_if_assertion_pass_impl() -> bool:
    return False


def _format_explanation(explanation: str) -> str:
    """Return an explanation for people. Its lines begin with "{", "}", "~" or ">", which say where they belong."""
    first, *rest = explanation.split("\n")
    lines, open_lines = [first], [0]
    for line in rest:
        mark, text = line[:1], line[1:]
        if mark == "{":
            open_lines.append(len(lines))
            lines.append(f"{'  ' * (len(open_lines) - 1)}where {text}")
        elif mark == "}":
            if len(open_lines) > 1:
                open_lines.pop()
            lines[open_lines[-1]] += text
        else:
            lines.append("  " * len(open_lines) + (text if mark in "~>" else line))
    return "\n".join(lines)
