"""The display protocol of notebooks: objects describe themselves by MIME type, and display() collects that.

See https://ipython.readthedocs.io/en/stable/config/integrating.html. A bundle has text for each MIME type: JSON is
serialised, and binary data is base64.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

from . import figures
from .failure import MAX_TEXT, cut
from .patches import replace

# By method of an object: the MIME type of what it returns.
METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
PLAIN = "text/plain"
# The classes whose objects have no other form, and whose repr() runs no other code.
PLAIN_TYPES = (int, float, complex, bool, str, bytes)
# Of a printed table: the stream is no terminal, and a model cannot ask for the rest.
WIDTH, MAX_COLUMNS = 200, 100
MAX_TYPES, MAX_BUNDLES = 32, 1000

_shown: list[dict[str, str]] = []
_places: dict[str, int] = {}  # of the bundles with an identifier, in _shown
_room = 0
_left_out = 0


def _as_text(value: Any) -> str | None:
    """Return the data of a MIME type as text, or None if there is none."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # JSON has no infinity and no NaN: JavaScript writes null
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))


def _from_method(value: Any, name: str, **arguments: Any) -> Any:
    """Return what a method of an object's class returns, without the metadata beside it; None if it fails."""
    # As IPython does it: the object may have any attribute that is asked for.
    if not callable(getattr(type(value), name, None)):
        return None
    try:
        found = getattr(value, name)(**arguments)
    except Exception:  # it has no such form; the others still count
        return None
    return found[0] if isinstance(found, tuple) and len(found) == 2 else found


def bundle_of(value: Any) -> dict[str, str]:
    """Return the forms of an object by MIME type, without that as plain text."""
    with figures.quiet():  # an object of a library may draw its picture with matplotlib
        found: dict[str, Any] = {kind: _from_method(value, name) for name, kind in METHODS.items()}
        whole = _from_method(value, "_repr_mimebundle_", include=None, exclude=None)
    found |= whole if isinstance(whole, dict) else {}
    bundle = {}
    for kind, data in list(found.items())[:MAX_TYPES]:
        try:
            text = _as_text(data)
        except Exception:  # JSON has no form for it
            continue
        if text is not None and isinstance(kind, str):
            bundle[kind] = text
    return bundle


def _keep(bundle: dict[str, str], identifier: str = "", *, update: bool = False) -> None:
    """Keep a bundle for the answer; of one that is too large, the plain text.

    Args:
        bundle: the bundle.
        identifier: of the display.
        update: whether it takes the place of the last one with this identifier.
    """
    global _room, _left_out  # noqa: PLW0603 (the state of a run)
    place = _places.get(identifier, -1) if update else -1
    if place >= 0:
        _room += sum(map(len, _shown[place].values()))
        _shown[place] = {}
    size = sum(map(len, bundle.values()))
    if size > _room or (place < 0 and len(_shown) == MAX_BUNDLES):
        _left_out += 1
        bundle = {kind: text for kind, text in bundle.items() if kind == PLAIN}
        size = sum(map(len, bundle.values()))
    if bundle and size <= _room and place >= 0:
        _shown[place] = bundle
    elif bundle and size <= _room and len(_shown) < MAX_BUNDLES:
        _shown.append(bundle)
        if identifier:
            _places[identifier] = len(_shown) - 1
    else:
        return
    _room -= size


def _cut(text: str) -> str:
    """Return a text as an answer may have it, and count what is too long for that."""
    global _left_out  # noqa: PLW0603 (the state of a run)
    _left_out += len(text) > MAX_TEXT
    return cut(text)


def _plain(value: Any, bundle: dict[str, str]) -> str:
    """Return an object as plain text: by its bundle, or as the prompt shows it."""
    text = bundle.get(PLAIN)
    if text is None:
        text = repr(value)
    return _cut(text)


def show_value(value: Any) -> str:
    """Keep the value of a last expression if it has a form besides plain text, and return the latter."""
    # Not with "in": the class of a class may compare, or refuse to hash.
    if any(type(value) is one for one in PLAIN_TYPES) or figures.output_value(value):
        return _cut(repr(value))
    bundle = bundle_of(value)
    with figures.quiet():
        text = _plain(value, {})
    if bundle.keys() - {PLAIN}:
        _keep({PLAIN: text, **bundle})
    return text


class DisplayHandle:
    """A display that can be updated, as IPython has it.

    Attributes:
        display_id: its identifier.
    """

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or os.urandom(16).hex()

    def __repr__(self) -> str:
        """Return it as IPython shows it."""
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: Any, **options: Any) -> None:
        """Show an object as one more display with this identifier."""
        display(value, display_id=self.display_id, **options)

    def update(self, value: Any, **options: Any) -> None:
        """Show an object in the place of the last one."""
        display(value, display_id=self.display_id, update=True, **options)


def display(
    *values: Any, raw: bool = False, display_id: str | bool | None = None, update: bool = False, **options: Any
) -> DisplayHandle | None:
    """Show objects: their forms are in the result of the run, and their plain text is printed.

    Args:
        values: the objects.
        raw: whether they are bundles already.
        display_id: an identifier of the display, or True for a new one.
        update: whether the object takes the place of the last one with this identifier, which prints nothing.
        options: of IPython's display(), which have no meaning here.

    Returns:
        What updates the display, if it has an identifier.
    """
    handle = DisplayHandle(None if display_id is True else str(display_id)) if display_id else None
    identifier = handle.display_id if handle else ""
    for value in values:
        if figures.output_value(value):
            continue
        if raw and isinstance(value, dict):
            bundle = {str(kind): _as_text(data) or "" for kind, data in value.items()}
        else:
            bundle = bundle_of(value)
        text = _plain(value, bundle) if not raw or PLAIN in bundle else ""
        if text and not update:
            print(text)
        _keep({PLAIN: text, **bundle} if text else bundle, identifier, update=update)
    return handle


def publish_display_data(data: Any, metadata: Any = None, *, transient: Any = None, **options: Any) -> None:
    """Show a bundle; see IPython's function of this name."""
    display(data, raw=True, display_id=(transient or {}).get("display_id"), update=options.get("update", False))


def begin(room: int) -> None:
    """Begin a run: nothing is kept yet.

    Args:
        room: characters of all bundles.
    """
    global _room, _left_out
    _shown.clear()
    _places.clear()
    _room, _left_out = room, 0
    if not hasattr(builtins, "display"):
        builtins.display = display  # type: ignore[attr-defined]


def take() -> dict[str, Any]:
    """Return what the answer says: the bundles, and the number of those that were too large."""
    return {"displays": list(filter(None, _shown)), "displays_left_out": _left_out}


def change_ipython(module: Any) -> None:
    """Change IPython.core.display_functions, whose functions have no notebook to write to."""
    replace(module, "display", lambda original: display)
    replace(module, "publish_display_data", lambda original: publish_display_data)


def _shower(show: Callable[..., Any]) -> Callable[..., None]:
    """Return a show(figure, …) of plotly that displays the figure."""

    def shown(figure: Any, *arguments: Any, **options: Any) -> None:
        bundle = bundle_of(figure)
        _keep({PLAIN: f"<{type(figure).__name__} of plotly>", **bundle})

    return shown


def change_plotly(module: Any) -> None:
    """Change plotly.io._renderers: a figure describes itself as JSON, and show() keeps that."""
    module.renderers.default = "plotly_mimetype"
    replace(module, "show", _shower)


def change_pillow(module: Any) -> None:
    """Change PIL.ImageShow: no program of the sandbox has a screen to show an image on, so it is displayed."""

    class Viewer(module.Viewer):  # type: ignore[misc]
        def show_image(self, image: Any, **_options: Any) -> int:
            builtins.display(image)  # type: ignore[attr-defined]  # this one, or IPython's in a kernel
            return 1

    module.register(Viewer, 0)


def widen_pandas(module: Any) -> None:
    """Change the defaults of pandas.core.config_init: otherwise a printed table lacks columns and text."""
    # Not by set_option(), which looks at all options, so that each process of a snapshot gets copies of their pages.
    with contextlib.suppress(Exception):  # of a release with another place
        module.cf._global_config["display"] |= {"width": WIDTH, "max_columns": MAX_COLUMNS, "max_colwidth": WIDTH}


def widen_polars(module: Any) -> None:
    """Set the variables of polars.config for printed tables, unless the caller has set them."""
    for name, value in (("TABLE_WIDTH", WIDTH), ("FMT_MAX_COLS", MAX_COLUMNS), ("FMT_STR_LEN", WIDTH)):
        os.environ.setdefault(f"POLARS_{name}", str(value))


PILLOW = {"PIL.ImageShow": change_pillow}
PATCHES = {
    "IPython.core.display_functions": change_ipython,
    "plotly.io._renderers": change_plotly,
    **PILLOW,
}
# Not at a prompt, whose reader has a terminal.
TABLES = {"pandas.core.config_init": widen_pandas, "polars.config": widen_polars}
