"""A parsed source text for the static analysis: what its names stand for, and what its strings contain."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Stands in a text for a part that only the run knows.
UNKNOWN = "?"
# Characters of a string that rules look at, where they look at what it is put together from.
MOST = 10_000


class Source:
    """A parsed source text, with the names that its imports and simple assignments have given to things."""

    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: that is not possible.
        """
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.names: dict[str, str] = {}
        self.modules: set[str] = set()
        self.stars: list[str] = []
        self.constants: dict[str, str] = {}
        self.bound: set[str] = set()
        for node in self.nodes:
            self._import(node)
        for node in self.nodes:
            self._bind(node)

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                self.names[alias.asname or name] = name
                self.modules.add(name.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            self.modules.add(node.module.partition(".")[0])
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(node.module)
                else:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _bind(self, node: ast.AST) -> None:
        """Note a name that the source itself defines, and its value if it is a string or another name's."""
        if isinstance(node, ast.arg):
            self.bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._assign(target.id, node.value)

    def _assign(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            self.constants[name] = value.value[:MOST]
        else:
            meant = self.full_name(value)
            if meant and meant.partition(".")[0] in self.modules:
                self.names.setdefault(name, meant)

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

    def candidates(self, name: str) -> Iterator[str]:
        """Yield the names under which rules may know a full name.

        Modules have others as attributes, some with an underscore: `random._os.system` is `os.system`.
        """
        name = name.removeprefix("builtins.")
        yield name
        parts = name.split(".")
        if parts[0] in self.modules:
            for start in range(1, len(parts) - 1):
                yield ".".join([parts[start].lstrip("_"), *parts[start + 1 :]])
        elif len(parts) == 1 and parts[0] not in self.bound:
            for module in self.stars:
                yield f"{module}.{name}"

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield each call with the name of what is called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.full_name(node.func)

    def uses(self) -> Iterator[tuple[int, str, bool]]:
        """Yield line and full name of each thing that is used by a name, and whether it is called."""
        inner, called = set(), set()
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                inner.add(id(node.value))
            elif isinstance(node, ast.Call):
                called.add(id(node.func))
        for node in self.nodes:
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and id(node) not in inner:
                name = self.full_name(node)
                # A variable of the source's own may have the name of a builtin: only calls of that count.
                if name and (id(node) in called or not (isinstance(node, ast.Name) and node.id in self.bound)):
                    yield node.lineno, name, id(node) in called
        for call, name in self.calls():
            if name in ("getattr", "builtins.getattr") and len(call.args) > 1:
                module, attribute = self.full_name(call.args[0]), call.args[1]
                if module and isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
                    yield call.lineno, f"{module}.{attribute.value}", False
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}", False

    def texts(self) -> Iterator[tuple[ast.Constant, str]]:
        """Yield each string in the source, as text."""
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                yield node, node.value if isinstance(node.value, str) else node.value.decode("latin-1")

    def literal(self, node: ast.expr) -> str | None:
        """Return the string that an expression is, or that was assigned to it; None if only the run knows it."""
        if isinstance(node, ast.Constant):
            return node.value[:MOST] if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        return None

    def built(self, node: ast.AST) -> str | None:
        """Return the text of a string that an expression builds from others; None if it does not.

        It builds one by +, %, an f-string or format(). UNKNOWN stands for what only the run knows.
        """
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else UNKNOWN for part in node.values]
            return (
                "".join(map(str, parts)) if any(isinstance(part, ast.FormattedValue) for part in node.values) else None
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self.literal(node.left)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum([node.left, node.right])
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            return self._sum([ast.Name(node.target.id, ast.Load()), node.value])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return self.literal(node.func.value)
        return None

    def _sum(self, parts: list[ast.expr]) -> str | None:
        """Return the text of a sum, from left to right; None if all of it is in the source, or nothing."""
        texts: list[str | None] = []
        rest, built = parts[::-1], False
        while rest:
            part = rest.pop()
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                rest += [part.right, part.left]
            else:
                found = self.literal(part)
                if found is None and (text := self.built(part)) is not None:
                    built, found = True, text
                texts.append(found)
        if all(text is None for text in texts) or (None not in texts and not built):
            return None
        return "".join(UNKNOWN if text is None else text for text in texts[:MOST])
