"""Figures of matplotlib: each show() and each savefig() leaves one in /output, and the end of a run those still open.

A figure is left once: again only if it was changed. One without content is not left at all.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .patches import replace
from .paths import moved

OUTPUT = moved("/output")
CHUNK = 1 << 20

_left: weakref.WeakSet[Any] = weakref.WeakSet()
_savefig: Callable[..., Any] | None = None


# Whether figures are drawn for something else: the frames of an animation, or the picture of an object.
_quiet = False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave no figure that is saved while the block runs, nor one that is opened in it."""
    global _quiet  # noqa: PLW0603 (a state of the process)
    before, was = set(_open()), _quiet
    _quiet = True
    try:
        yield
    finally:
        _quiet = was
        for number in set(_open()) - before:
            _leave(sys.modules["matplotlib.pyplot"]._pylab_helpers.Gcf.figs[number].canvas.figure)


def _open() -> list[int]:
    """Return the numbers of the figures that are open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers: Any = getattr(pyplot, "get_fignums", list)  # its import may have failed
    return list(numbers())


def figure_path(number: int) -> str:
    """Return the path of a figure without a name."""
    return f"{OUTPUT}/figure-{number}.png"


def _is_blank(figure: Any) -> bool:
    return len(figure.get_children()) < 2  # one is its background


def _leave(figure: Any) -> None:
    """Note that a figure as it is now has been left."""
    figure.stale = False
    _left.add(figure)


def output(figure: Any, number: int = 1) -> None:
    """Draw a figure into /output, unless it is there already, and overwrite no other file.

    Args:
        figure: of matplotlib.
        number: the first that is tried for its name.
    """
    if _is_blank(figure) or (figure in _left and not figure.stale):
        return
    free = next(n for n in itertools.count(number) if not os.path.lexists(figure_path(n)))
    (_savefig or type(figure).savefig)(figure, figure_path(free))
    _leave(figure)


def output_all() -> None:
    """Draw the figures that are open, and close them."""
    numbers = _open()
    if not numbers:
        return
    pyplot = sys.modules["matplotlib.pyplot"]
    try:
        for number in numbers:
            output(pyplot._pylab_helpers.Gcf.figs[number].canvas.figure, number)
    finally:
        pyplot.close("all")


def output_value(value: object) -> bool:
    """Draw a value if it is a figure, and tell whether it is."""
    module = sys.modules.get("matplotlib.figure")
    if module is None or not isinstance(value, getattr(module, "Figure", ())):
        return False
    output(value)
    return True


def _free_name(name: str) -> str:
    """Return a path in /output for a file of a name, or of the name with a number."""
    stem, dot, kind = name.rpartition(".")
    names = (f"{stem or kind}-{n}{dot}{kind if stem else ''}" for n in itertools.count(2))
    return next(path for one in itertools.chain([name], names) if not os.path.lexists(path := f"{OUTPUT}/{one}"))


def _copy(path: str) -> None:
    """Copy a file to /output, unless it is there."""
    if os.path.realpath(path).startswith(f"{OUTPUT}/"):
        return
    with open(path, "rb") as source, open(_free_name(os.path.basename(path)), "xb") as target:
        while part := source.read(CHUNK):
            target.write(part)


def _saved(figure: Any, target: Any, options: dict[str, Any]) -> None:
    """Leave a figure that the code has saved under a name of its own, or to a file object."""
    if _quiet or _is_blank(figure):
        return
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        kind = options.get("format") or sys.modules["matplotlib"].rcParams["savefig.format"]
        _copy(path if os.path.exists(path) else f"{path}.{kind}")
        _leave(figure)
    else:
        output(figure)


def change_figure(module: Any) -> None:
    """Change matplotlib.figure."""
    global _savefig  # noqa: PLW0603 (the function as it was)
    original = _savefig = module.Figure.savefig

    @functools.wraps(original)
    def savefig(self: Any, fname: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, fname, *arguments, **options)
        with contextlib.suppress(Exception):  # the code has its own file; /output may be full
            _saved(self, fname, options)
        return result

    @functools.wraps(module.Figure.show)
    def show(self: Any, *arguments: Any, **options: Any) -> None:
        output(self)

    module.Figure.savefig, module.Figure.show = savefig, show


def change_pyplot(module: Any) -> None:
    """Change matplotlib.pyplot. A backend of the code's own choice shows figures itself."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(*arguments: Any, **options: Any) -> Any:
            if module.get_backend().lower() != "agg":
                return original(*arguments, **options)
            return output_all()

        return show

    replace(module, "show", make)


def change_animation(module: Any) -> None:
    """Change matplotlib.animation, which draws each frame with savefig(): the film is one figure."""
    animation = module.Animation

    def change(name: str) -> None:
        original = getattr(animation, name)

        @functools.wraps(original)
        def changed(self: Any, *arguments: Any, **options: Any) -> Any:
            inner = _quiet
            with quiet():
                result = original(self, *arguments, **options)
            if name == "save" and not inner:
                with contextlib.suppress(Exception):  # as for a figure
                    _copy(os.fspath(arguments[0] if arguments else options["filename"]))
                    _leave(self._fig)
            return result

        setattr(animation, name, changed)

    for name in ("save", "to_html5_video", "to_jshtml"):
        change(name)


PATCHES = {
    "matplotlib.figure": change_figure,
    "matplotlib.pyplot": change_pyplot,
    "matplotlib.animation": change_animation,
}
