"""The page of `pysbx serve` in a real browser."""

# once: a browser sees the same as root
# slow: starts browsers

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pysbx.service.http.pages import FRAME, PAGES
from pysbx.service.sandboxes.preparation import PREPARING
from tests.browser import CONTROL, PROGRAM, SHIFT, Browser, Page
from tests.packages import make_wheel
from tests.servers import TOKEN, Server, server, wait_until

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")

DRAWS = """
import sys, time
import matplotlib.pyplot as plt
print("first", flush=True)
time.sleep(1)
print("second")
print("a warning", file=sys.stderr)
plt.figure(figsize=(6, 2.5)); plt.plot([n * n for n in range(20)]); plt.title("Squares"); plt.show()
open("/output/table.csv", "w").write("a,b\\n1,2\\n")
"the value"
"""
# The number of lines of each number that is shown in the table of sessions.
LINES = """[...document.querySelectorAll('#sessions td.number')].filter(one => one.checkVisibility()).map(one => {
  const range = document.createRange(); range.selectNodeContents(one); return range.getClientRects().length; })"""
# Set "begun" when a run begins: its button is disabled meanwhile.
BEGUN = """begun = false;
new MutationObserver(() => { begun = true; }).observe(document.querySelector('#run'), {attributes: true}); 1"""
# Keep what the page says about its state.
STATES = """states = [];
new MutationObserver((all) => all.forEach((one) => states.push(one.target.textContent))).observe(
  document.querySelector('#state'), {childList: true}); 1"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("page") / "token"
    tokens.write_text(TOKEN)
    options = ["--token-file", str(tokens), "--timeout", "60", "--memory", "600", "--virtualenv", sys.prefix]
    options += ["--allow-profile", "minimal"]
    with server(*options, listen="127.0.0.1:0", token=TOKEN, warnings=True) as running:
        # On a busy machine a cold start takes longer than the 10 seconds that this profile allows a run.
        wait_until(lambda: running.client.get("/readyz").json()["profiles"]["minimal"] != PREPARING, 120)
        yield running


@pytest.fixture
def page(chromium: Browser, service: Server) -> Iterator[Page]:
    """The page, after the user has entered the token."""
    with chromium.page() as made:
        enter(made, service)
        yield made
        made.value("localStorage.clear()")  # the tabs of a browser share it


def enter(page: Page, service: Server) -> None:
    """Open the page of a service, and enter the token."""
    page.mode("light")
    page.go(f"http://{service.address}/")
    page.wait("document.querySelector('#login').open")
    # Before the first try the page complains of nothing, and asks for nothing that it cannot get.
    assert page.complaints() == []
    assert not [address for address in page.requests() if "/v1/" in address]
    assert page.value("[...document.querySelectorAll('.notice')].filter(one => one.checkVisibility()).length") == 0
    page.type(TOKEN)
    page.press("Enter")
    page.wait("document.querySelector('#about').textContent.startsWith('Python 3')")


def write(page: Page, source: str) -> None:
    """Put a program into the editor."""
    page.value(f"code = document.querySelector('#code'); code.focus(); code.value = {json.dumps(source)}; 1")
    page.value("code.dispatchEvent(new Event('input')); 1")


def run(page: Page, source: str) -> str:
    """Run a program by the keyboard, and return the output that the page shows."""
    write(page, source)
    # A run may begin and end between two looks.
    page.value(BEGUN)
    page.press("Enter", CONTROL)
    page.wait("begun && !document.querySelector('#run').disabled")
    return output(page)


@needs_browser
def test_the_editor_has_colours(page: Page) -> None:
    write(page, "if xif: # no \"string\"\n    f\"a\\\"b\", '''#\nis''', 0x1f, é3")
    pieces = "[...document.querySelectorAll('#colours span')].map(one => one.className + ' ' + one.textContent)"
    assert page.value(pieces) == [
        "word if", 'remark # no "string"', 'text f"a\\"b"', "text '''#\nis'''", "number 0x1f",
    ]  # fmt: skip
    names = "['font', 'lineHeight', 'paddingLeft', 'paddingTop', 'tabSize']"
    style = f"one => {names}.map(name => getComputedStyle(document.querySelector(one))[name]).join()"
    assert page.value(f"new Set(['#code', '#colours'].map({style})).size") == 1
    write(page, "# é\n" * 200 + "x" * 500)
    page.value("code.scrollTop = code.scrollLeft = 1e6; code.dispatchEvent(new Event('scroll')); 1")
    places = "['#code', '#colours'].map(one => document.querySelector(one)).map(one => [one.scrollTop, one.scrollLeft])"
    (top, left), other = page.value(places)
    assert [top, left] == other
    assert top > 1000
    assert left > 1000


def output(page: Page) -> str:
    """Return the output that the page shows."""
    return str(page.value("document.querySelector('#output').textContent"))


def test_the_pages_need_no_token_and_load_nothing_from_elsewhere(service: Server) -> None:
    with service.connect() as stranger:
        for place, name, kind in PAGES:
            answer = stranger.get(place)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind), place
            policy = answer.headers["content-security-policy"].split("; ")
            assert {"default-src 'none'", "form-action 'none'"} <= set(policy)
            if place == FRAME:  # its content has an origin of its own, and no permission to connect
                assert "sandbox allow-scripts" in policy
                assert not any(
                    word in answer.headers["content-security-policy"] for word in ("-src 'self'", "http", "*")
                )
            else:
                assert {"script-src 'self'", "connect-src 'self'"} <= set(policy)
                assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "://" not in answer.text, f"{name} names an address"
        assert stranger.get("/openapi.json").status_code == 401
        assert stranger.get("/web/../pages.py").status_code == 401
        assert stranger.post("/").status_code == 405
    assert service.client.get("/web/none").status_code == 404
    assert "/" not in service.client.get("/openapi.json").json()["paths"]


@needs_browser
def test_colours_for_a_terminal_are_colours_of_the_page(page: Page) -> None:
    # A sequence may come in parts. Sequences about other things than colours are left out.
    parts = [
        r"\x1b[1;31mbad\x1b[22m red\x1b[0m plain \x1b[38;2;0;200;0mgreen\x1b",
        r"[39m \x1b]0;title\x07",
        r"\x1b[2K\x1b[94mend",
    ]
    source = "import sys, time\n" + "".join(f"sys.stdout.write('{part}'); time.sleep(0.2)\n" for part in parts)
    assert run(page, source) == "bad red plain green end"
    spans = "[...document.querySelectorAll('#output span')].map(one => [one.className, one.textContent])"
    assert page.value(spans) == [
        *(["bold colour1", "bad"], ["colour1", " red"], ["", " plain "]),
        *(["colour2", "green"], ["", " "], ["colour4", "end"]),
    ]
    assert "<b>bold</b>" in run(page, "print('\\x1b[1m<b>bold</b>\\x1b[0m')")
    failed = run(page, "import sys; print('\\x1b[31m', end='', file=sys.stderr); 1 / 0")
    assert "ZeroDivisionError" in failed and "\x1b" not in failed
    bar = "import time\nprint('start')\nfor part in range(0, 101, 50):\n"
    bar += "    print(f'\\r{part}%', end='', flush=True)\n    time.sleep(0.1)"
    assert run(page, f"{bar}\nprint('\\r\\nend')") == "start\n100%\nend\n"


@needs_browser
def test_a_page_behind_a_proxy_that_has_a_token_asks_for_none(chromium: Browser, service: Server) -> None:
    """The proxy adds it to each request, as the browser does here."""
    with chromium.page() as made:
        made.send("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {TOKEN}"})
        made.go(f"http://{service.address}/")
        made.wait("document.querySelector('#about').textContent.startsWith('Python 3')")
        assert not made.value("document.querySelector('#login').open")


@needs_browser
def test_a_program_runs_and_its_output_comes_while_it_runs(page: Page, service: Server) -> None:
    write(page, DRAWS)
    page.press("Enter", CONTROL)
    page.wait("document.querySelector('#output').textContent.includes('first')")
    assert "second" not in output(page)
    page.wait("!document.querySelector('#run').disabled")
    assert output(page).split("\n") == ["first", "second", "a warning", "'the value'", ""]
    facts = page.value("[...document.querySelectorAll('#facts li')].map(one => one.textContent)")
    assert facts[0] == "exit code 0"
    assert facts[1] in ("warm start", "cold start")
    assert " by the clock" in facts[2]
    assert page.value("document.querySelector('#figures img').naturalWidth") > 100
    assert page.value("document.querySelector('#files a').download") in ("table.csv", "figure-1.png")
    assert all(one.startswith((f"http://{service.address}/", "data:")) for one in page.requests())
    assert not any(TOKEN in one for one in page.requests())


@needs_browser
def test_packages_are_chosen(chromium: Browser, tmp_path: Path) -> None:
    make_wheel(tmp_path, "thing", "1.0", "version = 1\n")
    (tmp_path / "token").write_text(TOKEN)
    options = ("--token-file", str(tmp_path / "token"), "--wheels", str(tmp_path), "--allow-package", "thing")
    with server(*options, listen="127.0.0.1:0", token=TOKEN, warnings=True) as service, chromium.page() as page:
        enter(page, service)
        assert "ModuleNotFoundError" in run(page, "import thing; thing.version")
        page.value("document.querySelector('#packages input').click()")
        page.value(STATES)
        assert run(page, "import thing; thing.version") == "1\n"
        assert page.value("states.join()") == "running,installing thing,running,done"
        page.value("states = []; document.querySelector('#new').click()")
        page.wait("document.querySelector('#where').value !== ''")
        assert page.value("states.join()") == "starting a session,done"


@needs_browser
def test_the_token_stays_in_the_tab(page: Page) -> None:
    assert page.value("sessionStorage.getItem('pysbx-token')") == TOKEN
    assert page.value("location.href + document.cookie + JSON.stringify(localStorage)").find(TOKEN) < 0
    assert TOKEN not in page.value("document.documentElement.outerHTML")
    page.value("document.querySelector('#token').click()")
    page.value("document.querySelector('[value=forget]').click()")
    page.wait("document.querySelector('#about').textContent === 'needs a token'")
    assert page.value("sessionStorage.getItem('pysbx-token')") is None
    page.wait("document.querySelector('#login').open")
    page.value("document.querySelector('#secret').focus(); 1")
    page.type("another")
    page.press("Enter")
    page.wait("document.querySelector('#wrong').checkVisibility()")
    assert page.value("document.querySelector('#wrong').textContent") == "This token is not known here."


@needs_browser
def test_errors_violations_and_refusals_are_shown(page: Page) -> None:
    said = run(page, "def f(n):\n    return 1 / n\n\nf(0)\n")
    assert "ZeroDivisionError: division by zero" in said
    assert page.value("document.querySelector('#facts .bad').textContent") == "ZeroDivisionError"
    page.value("document.querySelector('#profile').value = 'minimal'")
    run(page, "import math\nimport os\neval('1')\n")
    rows = page.value("[...document.querySelectorAll('#violations tbody tr')].map(one => one.innerText.trim())")
    assert [row.split("\t")[:2] for row in rows] == [["2", "import"], ["3", "call"]]
    page.value("document.querySelectorAll('#violations button')[1].click()")
    assert page.value("code.value.slice(code.selectionStart, code.selectionEnd)") == "eval('1')"
    page.value("document.querySelector('#profile').value = ''; 1")
    assert run(page, "x = = 1").count("SyntaxError: invalid syntax") == 1
    page.value("document.querySelector('#memory').value = '100000'; 1")
    run(page, "1")
    assert "memory_mb: 100000 is more than this server allows" in page.value(
        "document.querySelector('#notice').innerText"
    )


@needs_browser
def test_what_code_writes_is_text_and_never_a_part_of_the_page(page: Page) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    program = (
        f"text = {hostile!r}\nprint(text)\n"
        "class Thing:\n    def __repr__(self): return text\n    def _repr_html_(self): return text\n"
        "    def _repr_svg_(self):\n"
        '        return \'<svg xmlns="http://www.w3.org/2000/svg" onload="parent.document.title=1"/>\'\n'
        "open('/output/<b>x.svg', 'w').write(text)\nprint(Thing())\nThing()\n"
    )
    assert run(page, program).count(hostile) >= 2
    assert page.value("document.title") == "pysbx"
    assert page.value("document.querySelectorAll('#output img, #output script, #files b').length") == 0
    # Even a mistake of the page could not make HTML of it: the policy demands Trusted Types, and allows none.
    refused = page.value("(() => { try { document.body.innerHTML = 'x'; return '' } catch (e) { return e.name } })()")
    assert refused == "TypeError"


# Says to the page what the code of a frame can do.
ESCAPES = """<p>shown</p><script>
const can = (work) => { try { return Boolean(work()); } catch { return false; } };
const load = (kind) => new Promise((done) => {
  const made = document.createElement(kind);
  made.onload = () => done(true);
  made.onerror = () => done(false);
  made.rel = 'stylesheet';
  made.src = made.href = 'ADDRESS/';
  document.body.append(made);
});
(async () => {
  const said = {
    page: can(() => parent.document), top: can(() => { top.location = 'ADDRESS/'; return true; }),
    storage: can(() => sessionStorage), popup: can(() => open('ADDRESS/')),
    fetch: await fetch('ADDRESS/').then(() => true, () => false),
    image: await load('img'), script: await load('script'), style: await load('link'),
  };
  parent.postMessage(said, '*');
  location = 'ADDRESS/';
})();
</script>"""
HEAR = "heard = []; addEventListener('message', ({data}) => heard.push(data)); 1"


@needs_browser
def test_html_is_shown_in_a_frame_that_reaches_nothing(page: Page, service: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        page.value(HEAR)
        source = ESCAPES.replace("ADDRESS", "http://{}:{}".format(*stranger.getsockname()))
        run(page, f"from IPython.display import HTML\nHTML({source!r})")
        page.wait("heard.some((one) => typeof one === 'number')")  # its height, which the frame tells
        assert not page.value("heard.some((one) => typeof one === 'object')")
        page.value("document.querySelector('#figures button').click()")
        page.wait("heard.some((one) => typeof one === 'object')")
        said = page.value("heard.find((one) => typeof one === 'object')")
        assert {name for name, able in said.items() if able} == set()
        assert page.value("location.pathname + document.title") == "/pysbx"
        stranger.settimeout(1)
        with suppress(TimeoutError):
            while True:  # Chromium connects in advance, also for what the policy refuses then. It sends nothing.
                connection, _ = stranger.accept()
                connection.settimeout(1)
                with connection, suppress(TimeoutError):
                    assert connection.recv(1) == b""


@needs_browser
def test_tables_and_plotly_are_shown(page: Page) -> None:
    run(page, "import pandas\npandas.DataFrame({'n': range(20), 'square': [n * n for n in range(20)]})")
    height = "parseInt(document.querySelector('#figures iframe')?.style.height || 0)"
    page.wait(f"{height} > 300")
    assert output(page) == ""  # the table's plain text would be the same again
    run(page, "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a', 'b'], y=[1, 4]), {'title': '</script>'})")
    page.wait("Boolean(document.querySelector('#figures button'))")
    page.value("document.querySelector('#figures button').click()")
    page.wait(f"{height} > 400")


def choose_file(page: Page, path: Path) -> None:
    """Choose a file at the page, as a user does in a dialog of the browser."""
    element = page.send("Runtime.evaluate", expression="document.querySelector('#upload')")["result"]["objectId"]
    page.send("DOM.setFileInputFiles", files=[str(path)], objectId=element)


@needs_browser
def test_files_are_given_to_runs_and_sessions(page: Page, tmp_path: Path) -> None:
    (tmp_path / "my data.txt").write_text("content")
    choose_file(page, tmp_path / "my data.txt")
    assert run(page, "print(open('my data.txt').read())") == "content\n"
    page.value("document.querySelector('#new').click()")
    page.wait("document.querySelector('#where').value !== ''")
    choose_file(page, tmp_path / "my data.txt")
    page.wait("document.querySelector('#kept').innerText.includes('my data.txt (7 B)')")
    assert run(page, "open('/output/made', 'w').write(open('my data.txt').read())") == "7\n"
    page.wait("document.querySelector('#kept').innerText.includes('/output/made')")
    page.value("document.querySelector('#kept [aria-label=\"Remove my data.txt\"]').click()")
    page.wait("!document.querySelector('#kept').innerText.includes('my data.txt')")
    page.value("[...document.querySelectorAll('#sessions button')].find(one => one.textContent === 'End').click()")
    page.wait("document.querySelector('#where').value === ''")


@needs_browser
def test_a_session_is_started_used_interrupted_forked_and_ended(page: Page) -> None:
    rows = "[...document.querySelectorAll('#sessions tbody tr')].map(one => one.innerText)"
    press = "[...document.querySelectorAll('#sessions button')].find(one => one.textContent === '{}').click()"
    page.value("document.querySelector('#new').click()")
    page.wait(f"{rows}[0].includes('ready')")
    assert page.value("document.querySelector('#where').value") != ""
    run(page, "x = 41")
    assert run(page, "x + 1") == "42\n"
    write(page, "import time\nprint('begun', flush=True)\ntime.sleep(15)")
    page.press("Enter", CONTROL)
    page.wait("document.querySelector('#output').textContent.includes('begun')")
    page.press(".", CONTROL)
    page.wait("!document.querySelector('#run').disabled")
    assert "KeyboardInterrupt" in output(page)
    page.value("document.querySelector('#seconds').value = '0.5'; 1")
    said = run(page, "import time; time.sleep(60)")
    assert (said.count("KeyboardInterrupt"), said.count("Timeout: not done after 0.5 seconds")) == (1, 1)
    page.value("document.querySelector('#seconds').value = ''; 1")
    page.value(press.format("Fork"))
    page.wait(f"{rows}.length === 2")
    assert run(page, "x + 1") == "42\n"
    page.mode("light", 420)
    assert page.value(LINES) == [1, 1], "the age of a session is not on one line"
    page.mode("light")
    for left in (1, 0):
        page.value(press.format("End"))
        page.wait(f"document.querySelectorAll('#sessions code').length === {left}")
    assert page.value("document.querySelector('#where').value") == ""


# The first answer that comes is kept until release() is called.
HOLD = """real = window.fetch; held = null;
window.fetch = (...request) => {
  const answer = real(...request);
  if (held) return answer;
  held = new Promise((done) => { release = done; });
  return answer.then(async (found) => { await held; return found; });
}; 1"""

# The first list of sessions arrives when the page has asked for a second one, which comes later.
OVERTAKE = """window.fetch = async (route, given) => {
  const number = route === 'v1/sessions' && given.method === 'GET' ? (asked += 1) : 0;
  const answer = await real(route, given);
  if (number === 1) document.querySelector('#refresh').click();
  await new Promise((done) => { setTimeout(done, number === 2 ? 500 : 50); });
  return answer;
}; asked = 0; 1"""


@needs_browser
def test_a_late_answer_does_not_bring_back_an_older_list_of_sessions(page: Page) -> None:
    rows = "document.querySelectorAll('#sessions code').length"
    page.value(HOLD)
    page.value("document.querySelector('#refresh').click()")
    page.wait("held !== null")
    page.value("document.querySelector('#new').click()")
    page.wait(f"{rows} === 1")
    page.value("release(); 1")
    time.sleep(1)
    assert page.value(rows) == 1
    page.value("[...document.querySelectorAll('#sessions button')].find(one => one.textContent === 'End').click()")
    page.wait(f"{rows} === 0")
    # The session that a button has started is chosen also if the page has asked again meanwhile.
    page.value(OVERTAKE)
    page.value("document.querySelector('#new').click()")
    page.wait("asked >= 2 && document.querySelector('#where').value")
    page.value("[...document.querySelectorAll('#sessions button')].find(one => one.textContent === 'End').click()")
    page.wait(f"{rows} === 0")


@needs_browser
def test_a_session_that_another_request_uses_is_listed_again_by_itself(page: Page, service: Server) -> None:
    rows = "document.querySelector('#sessions tbody').innerText"
    number = service.post("/v1/sessions").json()["id"]
    session = f"/v1/sessions/{number}"
    source = "open('/output/late', 'w').close()\nprint('begun', flush=True)\nimport time\ntime.sleep(60)"
    stream = {"Accept": "text/event-stream"}
    with service.client.stream("POST", f"{session}/run", json={"code": source}, headers=stream) as events:
        lines = events.iter_lines()
        next(line for line in lines if "begun" in line)
        page.value("document.querySelector('#refresh').click()")
        page.wait(f"{rows}.includes('running')")
        page.value(f"where = document.querySelector('#where'); where.value = '{number}'; 1")
        page.value("where.dispatchEvent(new Event('change')); document.querySelector('#sessions button').focus(); 1")
        assert service.post(f"{session}/interrupt").status_code == 204
        assert "KeyboardInterrupt" in "".join(lines)
    page.wait(f"{rows}.includes('ready')")
    page.wait("document.querySelector('#kept').innerText.includes('/output/late')")
    assert page.value("document.activeElement.textContent") == "Use", "the keyboard's focus is lost"
    assert service.client.delete(session).status_code == 204


@needs_browser
def test_a_run_is_stopped(page: Page, service: Server) -> None:
    write(page, "import time\nprint('begun', flush=True)\ntime.sleep(60)")
    page.press("Enter", CONTROL)
    page.wait("document.querySelector('#output').textContent.includes('begun')")
    page.press(".", CONTROL)
    page.wait("document.querySelector('#state').textContent === 'stopped'")
    assert service.run("1")["exit_code"] == 0


@needs_browser
def test_the_page_is_used_by_the_keyboard_alone(page: Page) -> None:
    focused = "document.activeElement.id || document.activeElement.textContent"
    page.value("document.activeElement.blur(); 1")
    seen = []
    for _ in range(7):
        page.press("Tab")
        seen.append(page.value(focused))
    assert seen == ["Skip to the editor", "theme", "token", "run", "code", "code", "code"]
    assert page.value("code = document.querySelector('#code'); code.value.includes('    ')")
    outline = page.value("getComputedStyle(code.closest('.editor')).outlineStyle")
    assert outline == "solid", "the focus is not visible"
    page.press("Escape")
    page.press("Tab")
    assert page.value(focused) == "where"
    page.press("Tab", SHIFT)
    assert page.value(focused) == "code"
    unnamed = page.value(
        "[...document.querySelectorAll('button, input, select, textarea')].filter(one => !one.ariaLabel"
        " && !one.textContent.trim() && !(one.labels && one.labels.length)).map(one => one.id)"
    )
    assert unnamed == []


# The contrast of each text that is shown: WCAG 2.2, success criterion 1.4.3.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const under = (one) => { for (; one; one = one.parentElement) {
    const found = rgb(getComputedStyle(one).backgroundColor);
    if (found[3] === 255) return found; } return [255, 255, 255]; };
  const bad = [];
  for (const one of document.querySelectorAll('body *')) {
    const says = one.placeholder || [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!says || !one.checkVisibility() || one.disabled || one.matches(':disabled *, .skip, option')) continue;
    const text = getComputedStyle(one, one.placeholder ? '::placeholder' : null);
    const [a, b] = [light(rgb(text.color)), light(under(one))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) bad.push(`${one.tagName} ${one.textContent.slice(0, 30)} ${contrast}`);
  }
  return bad;
})()"""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_both_modes(page: Page, scheme: str) -> None:
    run(page, "import sys\nprint(1, file=sys.stderr)\n1 / 0")
    page.mode(scheme)
    dark = page.value("matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (scheme == "dark")
    assert page.value(CONTRAST) == []
    for mode, color in (("light", "rgb(246, 247, 249)"), ("dark", "rgb(20, 23, 28)")):
        page.value("document.querySelector('#theme').click()")
        assert page.value("document.documentElement.dataset.mode") == mode
        assert page.value("getComputedStyle(document.body).backgroundColor") == color
        assert page.value(CONTRAST) == []
    page.mode("light", 420)
    assert page.value("document.documentElement.scrollWidth") <= 420


@needs_browser
def test_the_result_comes_into_sight_on_a_phone(page: Page) -> None:
    box = "document.querySelector('#output').getBoundingClientRect()"
    place = f"[{box}.top, innerHeight - {box}.bottom]"
    page.mode("light", 390, 844)
    assert page.value(place)[1] < 0
    assert run(page, "print(6 * 7)") == "42\n"
    assert min(page.value(place)) >= 0
    page.mode("light")
    page.value("scrollTo(0, 0)")
    run(page, "print(6 * 7)")
    assert page.value("scrollY") == 0
