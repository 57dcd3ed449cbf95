"""Static analysis of source text: advice about code, and a first look at it, before it runs.

It is not a barrier, because Python code can hide any call from an analysis. The barrier is the container. The analysis
runs in the sandbox because parsing hostile text is a risk of its own: a parser that crashes or hangs harms only the
sandbox.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

Finding = tuple[str, int, str]  # rule, line, message

SECRET_NAME = re.compile(r"(?i)(password|passwd|secret|api_?key|access_?key|auth_?token|private_?key)$")
SECRET_VALUE = re.compile(
    r"AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----|gh[pousr]_[A-Za-z0-9]{36}|xox[abprs]-[A-Za-z0-9-]{10,}"
)
SQL = re.compile(r"(?i)\b(select\s.+\sfrom|insert\s+into|update\s.+\sset|delete\s+from|drop\s+table)\b")
EXECUTE = frozenset({"execute", "executemany", "executescript", "read_sql", "raw", "text"})
WEAK_HASHES = frozenset({"md5", "md4", "sha1"})
DESERIALIZERS = frozenset(
    {
        *(f"{module}.{name}" for module in ("pickle", "cloudpickle", "dill", "marshal") for name in ("load", "loads")),
        *("pickle.Unpickler", "shelve.open", "jsonpickle.decode", "pandas.read_pickle", "torch.load", "joblib.load"),
    }
)
FORMAT_ATTRIBUTE = re.compile(r"\{[^{}]*\.(\w+)")


class _Source:
    """A parsed source text, with the names its imports have given to things."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.names: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.names[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full_name(self, node: ast.AST) -> str:
        """Return "os.path.join" for what the source calls so, or an alias of it; "" for what has no name."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.names.get(node.id, node.id))
        return ".".join(reversed(parts))

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield each call with the name of what is called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.full_name(node.func)

    def texts(self) -> Iterator[tuple[ast.Constant, str]]:
        """Yield each text in the source."""
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node, node.value


def _imports(source: _Source, rules: dict[str, Any]) -> Iterator[Finding]:
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


def _calls(source: _Source, rules: dict[str, Any]) -> Iterator[Finding]:
    blocked = frozenset(rules.get("blocked", ()))
    for call, name in source.calls():
        short = name.removeprefix("builtins.")
        if short in blocked:
            yield "call", call.lineno, f"'{short}' is called"


def _attributes(source: _Source, rules: dict[str, Any]) -> Iterator[Finding]:
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


def _secrets(source: _Source) -> Iterator[Finding]:
    for text, value in source.texts():
        if SECRET_VALUE.search(value):
            yield "secret", text.lineno, "a string looks like a key or token"
    for node in source.nodes:
        pairs: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        for name, value_node in pairs:
            literal = value_node.value if isinstance(value_node, ast.Constant) else None
            if isinstance(literal, str) and len(literal) > 3 and SECRET_NAME.search(name):
                yield "secret", value_node.lineno, f"'{name}' has its value in the source"


def _is_built(node: ast.expr) -> bool:
    """Tell whether an expression builds a string: by +, %, an f-string or format."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Mod))
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"


def _sql(source: _Source) -> Iterator[Finding]:
    for call, _ in source.calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in EXECUTE and call.args and _is_built(call.args[0]):
            text = " ".join(
                node.value
                for node in ast.walk(call.args[0])
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            )
            if SQL.search(text + " set from"):
                yield "sql", call.lineno, "SQL is built from strings: pass values as parameters"


def _weak_hash(source: _Source) -> Iterator[Finding]:
    for call, name in source.calls():
        module, _, function = name.rpartition(".")
        first = call.args[0] if call.args else None
        chosen = first.value if function == "new" and isinstance(first, ast.Constant) else function
        if module == "hashlib" and isinstance(chosen, str) and chosen.lower() in WEAK_HASHES:
            yield "weak-hash", call.lineno, f"'{chosen}' does not protect against an attack"


def _deserialization(source: _Source) -> Iterator[Finding]:
    for call, name in source.calls():
        if name in DESERIALIZERS:
            yield "deserialization", call.lineno, f"'{name}' runs what the data says"
        elif name in ("yaml.load", "yaml.load_all"):
            loaders = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "Loader")]
            if not any("Safe" in source.full_name(loader) for loader in loaders):
                yield "deserialization", call.lineno, f"'{name}' without a safe loader runs what the data says"


def _path_traversal(source: _Source) -> Iterator[Finding]:
    for text, value in source.texts():
        if value.startswith("../") or "/../" in value:
            yield "path-traversal", text.lineno, "a path leads upwards"


PATTERNS = {
    "secret": _secrets,
    "sql": _sql,
    "weak-hash": _weak_hash,
    "deserialization": _deserialization,
    "path-traversal": _path_traversal,
}


def _patterns(source: _Source, rules: dict[str, Any]) -> Iterator[Finding]:
    for name in rules.get("rules", ()):
        yield from PATTERNS[name](source)


STAGES = {"imports": _imports, "calls": _calls, "attributes": _attributes, "patterns": _patterns}


def analyse(text: str, stages: dict[str, Any]) -> list[list[Any]]:
    """Return the violations that the stages of a profile find, sorted by line.

    Args:
        text: the source. What cannot be parsed has no findings: running it says why.
        stages: for each name in STAGES, "stage": "enforce" or "observe", and the rules.

    Returns:
        [stage, rule, line, message] each.
    """
    try:
        source = _Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = {
        (line, rules["stage"], rule, message)
        for name, rules in stages.items()
        if rules["stage"] != "off"
        for rule, line, message in STAGES[name](source, rules)
    }
    return [[stage, rule, line, message] for line, stage, rule, message in sorted(found)]
