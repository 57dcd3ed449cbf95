"""The display protocol: objects come back by MIME type, as a notebook would get them."""

# once: the caller's rights make no difference

from __future__ import annotations

import base64
import json
import re

import pytest

from pysbx import Sandbox, run_code
from tests.servers import server
from tests.test_command import pysbx
from tests.test_forged import FORGE

RICH = """
class Rich:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>é</b>'
    def _repr_json_(self): return {'a': [1, None]}, {'expanded': True}
    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'
    def _repr_latex_(self): raise ValueError('no such form')
    def _repr_markdown_(self): return None
class Bundle:
    def __repr__(self): return 'bundle'
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/markdown': '*b*', 'application/vnd.own+json': {'x': 1}, 'text/broken': object()}
class Named(Bundle):
    def _repr_mimebundle_(self, **limits): return Bundle._repr_mimebundle_(self, **limits)
class Anything:
    def __repr__(self): return 'anything'
    def __getattr__(self, name): return lambda *_: 1/0
class Comparable(type):
    def __eq__(self, other): return self is other  # so it has no hash
class Compared(metaclass=Comparable):
    def __repr__(self): return 'compared'
"""
FORMS = {
    "text/plain": "plain",
    "text/html": "<b>é</b>",
    "application/json": '{"a": [1, null]}',
    "image/png": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(),
}
BUNDLE = {"text/plain": "bundle", "text/markdown": "*b*", "application/vnd.own+json": '{"x": 1}'}


def test_json_has_no_nan() -> None:
    done = run_code("class Data:\n    def _repr_json_(self): return {'x': [float('nan'), -float('inf'), 1.5]}\nData()")
    assert done.displays[0]["application/json"] == '{"x": [null, null, 1.5]}'


def test_a_value_has_all_its_forms() -> None:
    done = run_code(f"{RICH}\nRich()")
    assert (done.value, done.displays, done.stdout) == ("plain", (FORMS,), "")
    done = run_code(f"{RICH}\nBundle()")
    assert (done.value, done.displays) == ("bundle", (BUNDLE,))
    assert run_code(f"{RICH}\nNamed()").displays == (BUNDLE,)
    plain = {"6 * 7": "42", "Anything()": "anything", "Compared()": "compared", "Rich": "<class '__main__.Rich'>"}
    for source, value in plain.items():
        done = run_code(f"{RICH}\n{source}")
        assert (done.value, done.displays, done.error) == (value, (), None)


def test_display_shows_and_prints() -> None:
    done = run_code(f"{RICH}\nprint('before'); display(Rich(), 5); display(Bundle()); 1/0")
    assert (done.displays, done.stdout) == ((FORMS, {"text/plain": "5"}, BUNDLE), "before\nplain\n5\nbundle\n")
    done = run_code("display({'text/html': '<i>', 'application/json': [1]}, raw=True)")
    assert done.displays == ({"text/html": "<i>", "application/json": "[1]"},)
    assert run_code("display = 5; display").value == "5"


def test_a_display_can_be_updated() -> None:
    source = "handle = display(Rich(), display_id=True); display(5)\n"
    source += "handle.update({'text/html': '2'}, raw=True); handle"
    done = run_code(f"{RICH}\n{source}")
    assert done.error is None, done.stderr
    assert (done.displays, done.stdout) == (({"text/html": "2"}, {"text/plain": "5"}), "plain\n5\n")
    assert (done.value or "").startswith("<DisplayHandle display_id=")
    many = "h = display(1, display_id='x')\nfor _ in range(2000): h.update('a' * 90000)\nh.display(3); h.update(4)"
    with Sandbox(answer_limit=1 << 20) as session:
        done = session.run(many)
        (long,), (last,) = (one.values() for one in done.displays)
        assert (long[:3], long[-3:], len(long) <= 1 << 16, last, done.truncated) == ("'aa", "aa'", True, "4", True)
        assert session.run("h.update(5)").displays == ({"text/plain": "5"},)


def test_a_value_that_is_too_long_says_so() -> None:
    for source in ("list(range(20000))", "type('Rows', (list,), {})(range(20000))"):
        done = run_code(source)
        assert done.value is not None
        assert done.truncated
        assert done.value.startswith("[0, 1, 2,")
        assert done.value.endswith(" 19998, 19999]")
        assert re.search(r"\n\[truncated: \d+ characters left out\]\n", done.value)
        assert "[output was left out: print less]" in done.to_text()
    done = run_code("'a' * 65534")
    assert (len(done.value or ""), done.truncated) == (65536, False)


def test_functions_of_ipython_update_and_publish(virtualenv: str) -> None:
    source = (
        "from IPython.display import HTML, display, publish_display_data, update_display\n"
        "handle = display(HTML('1'), display_id=True); handle.update(HTML('2')); display(HTML('3'), display_id='x')\n"
        "update_display(HTML('4'), display_id='x')\n"
        "publish_display_data({'text/html': '5', 'text/plain': 'five'})"
    )
    for preload in ([], ["IPython"]):
        done = run_code(source, virtualenv=virtualenv, memory_mb=1024, preload=preload)
        assert done.error is None, done.stderr
        assert [one["text/html"] for one in done.displays] == ["2", "4", "5"]
        assert done.stdout.endswith("five\n")


def test_a_session_returns_what_was_displayed_since_the_last_run() -> None:
    with Sandbox() as session:
        assert session.run(f"{RICH}\nRich()").displays == (FORMS,)
        assert session.run("1").displays == ()
        assert session.run("def f(): display(Rich())\nf()").displays == (FORMS,)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_is_html_and_its_text_has_all_columns(library: str, virtualenv: str) -> None:
    source = (
        f"import {library} as library\nframe = library.DataFrame({{f'c{{n}}': ['x' * n] for n in range(60, 90)}})\n"
        "print(frame)\nframe"
    )
    done = run_code(source, virtualenv=virtualenv, memory_mb=2048, max_processes=200, preload=[library])
    for text in (done.stdout, done.value or ""):
        assert [n for n in range(60, 90) if f"c{n}" not in text] == []
        assert ("x" * 89 in text or library == "polars", "..." in text, "…" in text) == (True, False, False)
    (bundle,) = done.displays
    assert bundle["text/plain"] == done.value
    assert "<table" in bundle["text/html"]


@pytest.mark.parametrize("preload", [[], pytest.param(["IPython", "plotly.express"], marks=pytest.mark.all)], ids=str)
def test_libraries_of_notebooks(preload: list[str], virtualenv: str) -> None:
    source = (
        "from IPython.display import HTML, JSON, Markdown, display\nimport plotly.express\n"
        "display(HTML('<p>')); display(Markdown('# x')); display(JSON({'a': 1}))\n"
        "figure = plotly.express.bar(x=[1], y=[2]); figure.show(); display(figure); figure"
    )
    done = run_code(source, virtualenv=virtualenv, memory_mb=2048, max_processes=200, timeout_sec=60, preload=preload)
    assert done.error is None, done.stderr
    html, markdown, data, *figures = done.displays
    assert html["text/html"] == "<p>"
    assert markdown["text/markdown"] == "# x"
    assert json.loads(data["application/json"]) == {"a": 1}
    assert len(figures) == 3
    for figure in figures:
        drawn = json.loads(figure["application/vnd.plotly.v1+json"])
        assert drawn["data"][0]["type"] == "bar"
        assert "text/plain" in figure


@pytest.mark.parametrize("preload", [[], ["PIL.ImageShow"]], ids=str)
def test_images_that_pillow_shows_are_displayed(preload: list[str], virtualenv: str) -> None:
    source = "from PIL import Image\nfor size in ((2, 1), (1, 2)): Image.new('RGB', size).show()"
    done = run_code(source, virtualenv=virtualenv, memory_mb=1024, preload=preload)
    assert (done.error, done.stderr) == (None, "")
    assert ["image/png" in image for image in done.displays] == [True, True]


def test_bundles_are_bounded() -> None:
    source = "class Large:\n  def __repr__(self): return 'large'\n  def _repr_html_(self): return 'x' * 1_000_000\n"
    done = run_code(f"{source}for _ in range(3): display(Large())", answer_limit=5_000_000)
    assert [len(bundle) for bundle in done.displays] == [2, 1, 1]
    assert done.displays[1] == {"text/plain": "large"}
    assert done.truncated
    many = run_code("for n in range(2000): display(n)")
    assert len(many.displays) == 1000
    assert many.truncated


@pytest.mark.parametrize(
    "displays", ["5", "[5]", "[{'text/html': 5}]", "[{'x' * 500 + '/y': ''}]", "[{'no type': ''}]", "[{}]"]
)
def test_forged_bundles_are_left_out(displays: str) -> None:
    done = run_code(f"{FORGE}frame(msgpack.packb({{'exit_code': 0, 'displays': {displays}}}))")
    assert (done.exit_code, done.displays) == (0, ())


def test_the_service_and_the_command_return_bundles(tmp_path: object) -> None:
    with server(listen=f"unix:{tmp_path}/socket") as service:
        assert service.run(f"{RICH}\nRich()")["displays"] == [FORMS]
    done = pysbx("run", "--json", "-c", f"{RICH}\nRich()")
    assert json.loads(done.stdout)["displays"] == [FORMS]
    assert pysbx("run", "-c", f"{RICH}\ndisplay(Rich())").stdout == "plain\n"
