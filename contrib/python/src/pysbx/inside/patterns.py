"""Rules of the stage "patterns": secrets, SQL from strings, weak hashes, unsafe data, paths that lead upwards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .source import Source

Finding = tuple[str, int, str]  # rule, line, message

SECRET_NAME = re.compile(
    r"(?i)(password|passwd|secret|secret_?key|api_?(?:key|secret)|access_?key|auth_?token|private_?key)$"
)
SECRET_VALUE = re.compile(
    r"AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----|gh[pousr]_[A-Za-z0-9]{36}|xox[abprs]-[A-Za-z0-9-]{10,}"
    # In a text: a value with a digit, because words of English are long as well.
    r"|(?i:api[_-]?key|api[_-]?secret|token|secret[_-]?key|password|passwd)"
    r"\s*[:=]\s*['\"]?(?=[A-Za-z+/=_-]{0,40}[0-9])[A-Za-z0-9+/=_-]{16,}"
)
# A shorter string in an assignment is a placeholder more often than a secret.
LEAST_SECRET = 8
# The keywords of a statement, which are all in upper or all in lower case. "Select one from the list" is English.
OBJECT = r"(?:table|view|index|user|database|schema)"
SQL_WORDS = (
    r"^\W*(?:select\s(?:.*\s)?from\b|insert\s+into\b|update\s.*\sset\b|delete\s+from\b|union\s+(?:all\s+)?select\b|"
    rf"(?:drop|alter|create)\s+{OBJECT}\b)"
)
UPPER_WORDS = re.sub(r"(?<!\\)[a-z]+", lambda word: word[0].upper(), SQL_WORDS)
SQL = (re.compile(SQL_WORDS, re.DOTALL), re.compile(UPPER_WORDS, re.DOTALL))
WEAK_HASHES = frozenset({"md5", "md4", "sha1"})
DESERIALIZERS = frozenset(
    {
        *(f"{module}.{name}" for module in ("pickle", "cloudpickle", "dill", "marshal") for name in ("load", "loads")),
        *("pickle.Unpickler", "dill.Unpickler", "shelve.open", "jsonpickle.decode", "pandas.read_pickle", "torch.load"),
        *("joblib.load", "yaml.unsafe_load", "yaml.unsafe_load_all"),
    }
)
YAML_LOADERS = ("yaml.load", "yaml.load_all")
PATH_CALLS = ("open", "join", "joinpath", "Path", "chdir", "listdir", "scandir", "glob")


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """Yield the names of variables, attributes and keys that are assigned to."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            yield str(target.slice.value)


def _defaults(node: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that have a default, and the default."""
    plain = [*node.posonlyargs, *node.args]
    pairs = [*zip(plain[::-1], node.defaults[::-1]), *zip(node.kwonlyargs, node.kw_defaults)]  # noqa: B905 (not in 3.9)
    yield from ((argument.arg, default) for argument, default in pairs if default is not None)


def _named(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """Yield each value in the source that has a name: of a variable, attribute, argument, parameter or key."""
    for node in source.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            yield from ((name, node.value) for name in _targets(node))
        elif isinstance(node, ast.Call):
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
        elif isinstance(node, ast.arguments):
            yield from _defaults(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):  # noqa: B905 (not in 3.9)
                # A word may be the name of a column.
                if isinstance(key, ast.Constant) and not str(getattr(value, "value", "")).replace("_", "").isalpha():
                    yield str(key.value), value


def secrets(source: Source) -> Iterator[Finding]:
    """Find passwords, keys and tokens."""
    for text, value in source.texts():
        if SECRET_VALUE.search(value):
            yield "secret", text.lineno, "a string looks like a key or token"
    for name, node in _named(source):
        literal = node.value if isinstance(node, ast.Constant) else None
        is_word = isinstance(literal, (str, bytes)) and len(literal) >= LEAST_SECRET and len(literal.split()) == 1
        if is_word and SECRET_NAME.search(name):
            yield "secret", node.lineno, f"'{name}' has its value in the source"


def is_sql(text: str) -> bool:
    """Tell whether a text is an SQL statement, or its beginning."""
    return any(words.search(text) for words in SQL)


def sql(source: Source) -> Iterator[Finding]:
    """Find SQL that is built from strings."""
    parts = {id(part) for node in source.nodes if isinstance(node, ast.BinOp) for part in (node.left, node.right)}
    for node in source.nodes:
        # Of a sum, the whole counts, and not each sum in it.
        text = None if isinstance(node, ast.BinOp) and id(node) in parts else source.built(node)
        if text is not None and is_sql(text):
            yield "sql", getattr(node, "lineno", 1), "SQL is built from strings: pass values as parameters"


def weak_hash(source: Source) -> Iterator[Finding]:
    """Find hashes that do not protect against an attack, unless the source says that no attack is expected."""
    harmless = set()
    for call, name in source.calls():
        if any(
            keyword.arg == "usedforsecurity"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is False
            for keyword in call.keywords
        ):
            harmless.add((call.lineno, name))
            continue
        chosen = {"hashlib.new": call.args[:1], "hmac.new": call.args[2:3], "hmac.digest": call.args[2:3]}.get(name, [])
        chosen = [*chosen, *(keyword.value for keyword in call.keywords if keyword.arg == "digestmod")]
        for argument in chosen:
            if isinstance(argument, ast.Constant) and str(argument.value).lower() in WEAK_HASHES:
                yield "weak-hash", call.lineno, _weak(str(argument.value))
    for line, name, _ in source.uses():
        module, _, function = name.rpartition(".")
        if module == "hashlib" and function in WEAK_HASHES and (line, name) not in harmless:
            yield "weak-hash", line, _weak(function)


def _weak(name: str) -> str:
    return f"'{name}' does not protect against an attack"


def deserialization(source: Source) -> Iterator[Finding]:
    """Find functions that run what their data says."""
    for line, name, _ in source.uses():
        if name in DESERIALIZERS:
            yield "deserialization", line, f"'{name}' runs what the data says"
    for call, name in source.calls():
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if name in YAML_LOADERS:
            loaders = [*call.args[1:], *(keywords[word] for word in ("Loader",) if word in keywords)]
            if not any("Safe" in source.full_name(loader) for loader in loaders):
                yield "deserialization", call.lineno, f"'{name}' without a safe loader runs what the data says"
        allowed = keywords.get("allow_pickle")
        if name == "numpy.load" and isinstance(allowed, ast.Constant) and allowed.value is True:
            yield "deserialization", call.lineno, "'numpy.load' with allow_pickle runs what the data says"


def path_traversal(source: Source) -> Iterator[Finding]:
    """Find paths that lead upwards."""
    for text, value in source.texts():
        if value.startswith("../") or "/../" in value or value.endswith("/.."):
            yield "path-traversal", text.lineno, "a path leads upwards"
    for call, name in source.calls():
        function = call.func.attr if isinstance(call.func, ast.Attribute) else name.rpartition(".")[2]
        if function in PATH_CALLS and any(source.literal(argument) == ".." for argument in call.args):
            yield "path-traversal", call.lineno, "a path leads upwards"


PATTERNS = {
    "secret": secrets,
    "sql": sql,
    "weak-hash": weak_hash,
    "deserialization": deserialization,
    "path-traversal": path_traversal,
}
