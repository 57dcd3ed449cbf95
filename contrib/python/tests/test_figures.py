"""Each show() and each savefig() of matplotlib gives a figure, and only once."""

# once: the caller's rights make no difference

from __future__ import annotations

import io

import pytest
from PIL import Image

from pysbx import Sandbox, SandboxOptions, run_code
from pysbx.options.keywords import Unpack

START = "import matplotlib.pyplot as plt\n"
PLOT, BAR = "plt.plot([1, 2]);", "plt.bar([1, 2], [1, 2]);"
# A program, how it ends, and the files that it leaves.
PROGRAMS: tuple[tuple[str, list[str]], ...] = (
    (f"{PLOT} plt.savefig('plot.png'); plt.close()", ["plot.png"]),
    (f"{PLOT} plt.show(); plt.close()", ["figure-1.png"]),
    (f"{PLOT} plt.show(); {BAR} plt.show()", ["figure-1.png", "figure-2.png"]),
    (f"for _ in range(3):\n  {PLOT} plt.show(); plt.clf()", ["figure-1.png", "figure-2.png", "figure-3.png"]),
    (f"{PLOT} 1/0", ["figure-1.png"]),
    (f"{PLOT} plt.show(); 1/0", ["figure-1.png"]),
    (f"{PLOT} import sys; sys.exit(3)", ["figure-1.png"]),
    (f"{PLOT} plt.show()\nimport os; os._exit(0)", ["figure-1.png"]),
    (f"{PLOT} plt.show()\nimport time; time.sleep(1000)", ["figure-1.png"]),
    (f"{PLOT} plt.savefig('a.png'); plt.show()", ["a.png"]),
    (f"{PLOT} plt.savefig('a.svg'); plt.title('x'); plt.show()", ["a.svg", "figure-1.png"]),
    (f"{PLOT} plt.savefig('/output/mine.png')", ["mine.png"]),
    (f"import os; os.chdir('/output'); {PLOT} plt.savefig('here')", ["here.png"]),
    (f"{PLOT} plt.savefig('a'); plt.plot([3]); plt.savefig('a.png')", ["a-2.png", "a.png"]),
    (f"import io; {PLOT} plt.savefig(io.BytesIO()); plt.close()", ["figure-1.png"]),
    (f"import matplotlib; matplotlib.use('Agg'); {PLOT} plt.show()", ["figure-1.png"]),
    ("fig, axes = plt.subplots(2); axes[0].plot([1]); fig.show(); plt.close(fig)", ["figure-1.png"]),
    ("from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1]); f.savefig('f.png')", ["f.png"]),
    ("from matplotlib.figure import Figure\nf = Figure(); _ = f.subplots().plot([1]); f", ["figure-1.png"]),
    ("plt.figure(); plt.show(); plt.savefig('blank.png')", []),
    (f"{PLOT} plt.close()", []),
    (f"def f():\n  from matplotlib import pyplot as p\n  {PLOT} p.show()\nf(); f()", ["figure-1.png", "figure-2.png"]),
)


FILM = (
    "from matplotlib.animation import FuncAnimation, PillowWriter\n"
    "figure, axes = plt.subplots(); (line,) = axes.plot([0, 1])\n"
    "film = FuncAnimation(figure, lambda n: line.set_ydata([n, 1]), frames=5)\n"
)
# An object of a library whose picture matplotlib draws.
DRAWN = """
import io
class Drawn:
    def _repr_png_(self):
        figure, file = plt.figure(), io.BytesIO()
        figure.add_subplot().plot([1, 2]); figure.savefig(file)
        return file.getvalue()
"""


def usual(virtualenv: str) -> SandboxOptions:
    """Return options whose snapshot has matplotlib, because an import of it costs more than a figure."""
    preload = ["matplotlib.pyplot"]
    return {"virtualenv": virtualenv, "memory_mb": 1024, "preload": preload, "warm": "require", "timeout_sec": 60}


def check(program: str, names: list[str], **options: Unpack[SandboxOptions]) -> None:
    """Run a program, and look at its figures."""
    options |= {"timeout_sec": 5 if "sleep" in program else 30, "memory_mb": 1024}
    done = run_code(START + program, **options)
    assert sorted(done.artifacts) == sorted(names), done.stderr
    for name, content in done.artifacts.items():
        if name.endswith(".png"):
            with Image.open(io.BytesIO(content)) as image:
                colours = image.convert("RGB").getcolors(1 << 20)
            assert colours is not None and len(colours) > 2
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(("program", "names"), PROGRAMS, ids=[program[:70] for program, _ in PROGRAMS])
def test_every_way_to_show_a_figure(program: str, names: list[str], virtualenv: str) -> None:
    check(program, names, **usual(virtualenv))


@pytest.mark.parametrize(("program", "names"), [PROGRAMS[number] for number in (2, 15, 18, 21)])
def test_a_figure_of_a_matplotlib_that_the_program_imports(program: str, names: list[str], virtualenv: str) -> None:
    check(program, names, virtualenv=virtualenv)


@pytest.mark.parametrize(
    "preload",
    [
        *(pytest.param(name, marks=pytest.mark.all) for name in ("matplotlib", "matplotlib.pylab", "pandas.plotting")),
        "matplotlib.figure",
    ],
)
def test_a_figure_of_a_preloaded_matplotlib(preload: str, virtualenv: str) -> None:
    options: SandboxOptions = {"virtualenv": virtualenv, "memory_mb": 1024, "warm": "require", "preload": [preload]}
    for program, names in PROGRAMS[:4]:
        done = run_code(START + program, **options)
        assert sorted(done.artifacts) == names, program
    done = run_code(f"import importlib\n{START}importlib.reload(plt); {PLOT} plt.show(); plt.close()", **options)
    assert list(done.artifacts) == ["figure-1.png"]
    done = run_code(f"from matplotlib.pylab import *\n{PLOT} show(); close()", **options)
    assert list(done.artifacts) == ["figure-1.png"]
    done = run_code("import matplotlib.pyplot as plt, none", **options)
    assert "importlib" not in done.stderr and "pysbx" not in done.stderr


def test_an_animation_is_one_figure(virtualenv: str) -> None:
    for save, names in (
        ("film.save('film.gif', writer='pillow')", ["film.gif"]),
        ("film.save('/output/film.gif', writer=PillowWriter()); plt.close()", ["film.gif"]),
        ("_ = film.to_jshtml()", ["figure-1.png"]),
    ):
        done = run_code(f"{START}{FILM}{save}", **usual(virtualenv))
        assert (list(done.artifacts), done.exit_code) == (names, 0), done.stderr


def test_a_picture_that_an_object_draws_of_itself_is_no_figure_as_well(virtualenv: str) -> None:
    for show in ("Drawn()", "display(Drawn())"):
        done = run_code(f"{START}{DRAWN}{show}", **usual(virtualenv))
        assert (len(done.displays), dict(done.artifacts)) == (1, {}), done.stderr
        assert "image/png" in done.displays[0]


def test_a_saved_figure_that_is_returned_is_not_named_as_left_behind(virtualenv: str) -> None:
    source = (
        "import os, matplotlib.pyplot as plt\nplt.plot([1]); os.mkdir('plots'); os.mkdir('mixed'); os.mkdir('empty')\n"
        "plt.savefig('a.png'); plt.savefig('/work/plots/b.png'); plt.savefig('mixed/c.png')\n"
        "open('mixed/note', 'w').write('1'); open('other.csv', 'w').write('2')\n"
        "os.symlink('a.png', 'link.png'); open('none', 'w'); open('/output/none', 'w')"
    )
    done = run_code(source, **usual(virtualenv))
    assert {"a.png", "b.png", "c.png"} < set(done.artifacts)
    assert done.uncollected == ("empty/", "mixed/", "none", "other.csv")


def test_figures_of_one_program_are_different(virtualenv: str) -> None:
    done = run_code(f"{START}{PLOT} plt.show(); {BAR} plt.show()", **usual(virtualenv))
    assert len(set(done.artifacts.values())) == 2


def test_a_session_returns_each_figure_once(virtualenv: str) -> None:
    runs = ((f"{START}{PLOT} plt.show()", 1), ("1 + 1", 0), (f"{BAR} plt.show()", 1), (f"{PLOT} 1", 1), ("'done'", 0))
    with Sandbox(**usual(virtualenv)) as session:
        for source, count in runs:
            assert len(session.run(source).artifacts) == count
        assert len(session.run(f"{PLOT} plt.savefig('a.png')").artifacts) == 1
        assert len(session.run("1").artifacts) == 0


def test_what_a_figure_cannot_do_is_an_error_of_the_code(virtualenv: str) -> None:
    done = run_code(f"{START}{PLOT} plt.title('$\\\\frac$'); 5", **usual(virtualenv))
    assert done.exit_code == 1
    assert done.error is not None and done.error.type == "ValueError"
    assert "ValueError" in done.stderr


def test_modules_are_as_they_would_be(virtualenv: str) -> None:
    source = (
        "import matplotlib.pyplot as plt, matplotlib.figure as figure, inspect, pickle\n"
        "print(type(plt.__loader__).__name__, plt.__spec__.loader is plt.__loader__, plt.show.__name__)\n"
        "print(list(inspect.signature(figure.Figure.savefig).parameters))\n"
        "print(len(pickle.dumps(plt.figure())) > 0)"
    )
    done = run_code(source, virtualenv=virtualenv, memory_mb=1024)
    said = ["SourceFileLoader True show", "['self', 'fname', 'transparent', 'kwargs']", "True"]
    assert done.stdout.splitlines() == said
