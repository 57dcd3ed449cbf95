"""Indexes and the configuration of pip: from which places an installation takes packages."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pysbx import DependencyInstallError, SandboxOptionError, run_code
from pysbx.packages import sources
from pysbx.packages.installers import reason_of
from pysbx.packages.sources import VARIABLES_OF_REQUESTS
from tests.clients import answer_of, begin, run_of, send
from tests.packages import make_project, make_wheel

CONFIGURATION = """
[global]
index-url = https://one.test/simple/
trusted-host = one.test two.test
cert = {folder}/authority.pem
[install]
extra-index-url =
    https://two.test:8443/simple/
    https://three.test/simple/
find-links = {folder}/links https://four.test/files/
only-binary = :all:
pre = true
constraint = {folder}/constraints.txt
[download]
index-url = https://other.test/simple/
"""
# An address that is not of this machine, as far as the proxy can see, and reachable within the tests' own namespace.
ADDRESS = "10.87.65.43"


@pytest.fixture(autouse=True)
def anew(tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache and a configuration of pip of its own."""
    for name in [
        name for name in os.environ if name.startswith(("PIP_", "SSL_CERT_")) or name in VARIABLES_OF_REQUESTS
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    sources.configuration.cache_clear()
    yield tmp_path
    sources.configuration.cache_clear()


def configure(folder: Path, text: str = CONFIGURATION) -> None:
    (folder / "links").mkdir(exist_ok=True)
    (folder / "authority.pem").write_text("authority")
    (folder / "constraints.txt").write_text("thing<3\n")
    (folder / "pip.conf").write_text(text.format(folder=folder))


def test_the_configuration_of_pip(anew: Path) -> None:
    configure(anew)
    found = sources.of_indexes("", ())
    indexes = ("https://one.test/simple/", "https://two.test:8443/simple/", "https://three.test/simple/")
    assert (found.indexes, found.hosts) == (indexes, ("one.test", "two.test:8443", "three.test", "four.test"))
    assert found.links == ("/.links/0", "https://four.test/files/")
    assert [(mount.source, mount.target) for mount in found.mounts] == [(f"{anew}/links", "/.links/0")]
    assert found.files() == {"authority.pem": b"authority", "constraints-0.txt": b"thing<3\n"}
    arguments = found.pip_arguments()
    assert arguments[:4] == [
        "--index-url",
        indexes[0],
        f"--extra-index-url={indexes[1]}",
        f"--extra-index-url={indexes[2]}",
    ]
    assert {"--only-binary=:all:", "--pre", "--trusted-host=one.test", "--trusted-host=two.test"} <= set(arguments)
    assert "--allow-insecure-host=one.test" in found.uv_arguments()
    assert found.environment()["PIP_CERT"] == "/work/authority.pem"


def test_an_index_of_the_caller_takes_the_place_of_the_configured_ones(anew: Path) -> None:
    configure(anew)
    found = sources.of_indexes("https://five.test/simple/", ("https://six.test/simple/",))
    assert found.indexes == ("https://five.test/simple/", "https://six.test/simple/")
    assert (found.hosts, found.links, found.mounts) == (("five.test", "six.test"), (), ())


def test_variables_of_pip_come_first(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(anew)
    monkeypatch.setenv("PIP_INDEX_URL", "https://seven.test/simple/")
    assert sources.of_indexes("", ()).indexes[0] == "https://seven.test/simple/"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    sources.configuration.cache_clear()
    assert sources.of_indexes("", ()).pip_arguments()[0] == "--no-index"


@pytest.mark.parametrize("line", ["find-links = {folder}/none", "cert = {folder}/none", "constraint = {folder}/none"])
def test_a_configuration_that_names_a_file_which_is_missing(anew: Path, line: str) -> None:
    configure(anew, f"[global]\nindex-url = https://one.test/\n{line}\n")
    with pytest.raises(DependencyInstallError, match=f"pip's configuration: {line.split(maxsplit=1)[0]}: .*none"):
        sources.of_indexes("", ())


def test_variables_that_name_certificate_authorities(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which pip and OpenSSL look at them, of which the last ones add up."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    marks = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
    texts = {name: marks.format(name).encode() for name in ("one", "two", "three", "four")}
    folder = anew / "certificates"
    folder.mkdir()
    (folder / "four.pem").write_bytes(texts["four"])
    (folder / "0a1b2c3d.0").symlink_to("four.pem")
    (folder / "README").write_text("no certificate")
    for name in ("one", "two", "three"):
        (anew / f"{name}.pem").write_bytes(texts[name])

    def authorities() -> bytes:
        sources.configuration.cache_clear()
        found = [source.files()["authority.pem"] for source in (sources.of_indexes("", ()), sources.of_wheels("/"))]
        assert found[0] == found[1]
        assert sources.of_wheels("/").environment()["SSL_CERT_FILE"] == "/work/authority.pem"
        return found[0]

    monkeypatch.setenv("SSL_CERT_FILE", str(anew / "one.pem"))
    assert authorities() == texts["one"]
    monkeypatch.setenv("SSL_CERT_DIR", f"{anew}/missing:{folder}")
    assert authorities() == texts["one"] + texts["four"]
    monkeypatch.setenv("CURL_CA_BUNDLE", str(anew / "two.pem"))
    assert authorities() == texts["two"]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(anew / "three.pem"))
    assert authorities() == texts["three"]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder))
    assert authorities() == texts["four"]
    monkeypatch.setenv("PIP_CERT", str(anew / "one.pem"))
    sources.configuration.cache_clear()
    assert sources.of_indexes("", ()).files()["authority.pem"] == texts["one"]


def test_a_variable_that_names_no_certificate_authorities(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(anew / "none"))
    with pytest.raises(DependencyInstallError, match=r"^REQUESTS_CA_BUNDLE: '.*/none': No such file or directory$"):
        sources.of_indexes("", ())
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    monkeypatch.setenv("SSL_CERT_FILE", str(anew / "none"))  # as OpenSSL, which ignores it
    assert sources.of_wheels("/").authorities == b""


@pytest.mark.parametrize("url", ["https://127.0.0.1:9/simple", "https://[::1]/simple", "https://10.1.2.3/"])
def test_an_index_by_its_address_is_refused_under_its_own_name(url: str) -> None:
    for options in {"index_url": url}, {"index_url": "https://index.test/", "extra_index_urls": [url]}:
        with pytest.raises(SandboxOptionError, match=f"^{list(options)[-1]}: .* has an address") as caught:
            run_code("1", dependencies=["thing"], **options)
        assert caught.value.option == list(options)[-1]


@pytest.mark.parametrize("urls", ["https://one.test/", ["one.test"], ["https://"], ["https://a b/"], [1]])
def test_malformed_extra_indexes(urls: Any) -> None:
    with pytest.raises(SandboxOptionError, match="extra_index_urls: "):
        run_code("1", extra_index_urls=urls)


@pytest.fixture
def named() -> str:
    """The name of the host at ADDRESS, for indexes."""
    if os.geteuid() != 0:
        pytest.skip("gives the loopback device an address that is not of this machine")
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    if "index.test" not in Path("/etc/hosts").read_text():
        with open("/etc/hosts", "a") as file:  # the tests have an /etc of their own
            file.write(f"{ADDRESS} index.test\n")
    return "index.test"


@contextlib.contextmanager
def served(folder: Path, certificate: Path | None = None) -> Iterator[int]:
    """Serve a folder at ADDRESS, by TLS if there is a certificate with its key."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer((ADDRESS, 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.root
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_packages_of_two_indexes(anew: Path, named: str, monkeypatch: pytest.MonkeyPatch, installer: Any) -> None:
    for name in ("one", "two"):
        package = anew / "site" / name / "simple" / f"thing-of-{name}"
        package.mkdir(parents=True)
        make_wheel(package, f"thing_of_{name}", "1.0", f"value = '{name}'\n")
    monkeypatch.setenv("PIP_TRUSTED_HOST", named)
    with served(anew / "site") as port:
        base = f"http://{named}:{port}"
        done = run_code(
            "import thing_of_one, thing_of_two; thing_of_one.value + thing_of_two.value",
            dependencies=["thing-of-one", "thing-of-two"],
            index_url=f"{base}/one/simple/",
            extra_index_urls=[f"{base}/two/simple/"],
            installer=installer,
        )
        assert (done.error, done.value) == (None, "'onetwo'")
        with pytest.raises(DependencyInstallError, match="thing-of-two"):
            run_code("1", dependencies=["thing-of-two"], index_url=f"{base}/one/simple/", installer=installer)


def make_certificates(folder: Path, host: str) -> tuple[Path, Path]:
    """Make an authority that this machine does not know, and a certificate of it with its key for a host."""
    authority, certificate = folder / "authority.pem", folder / "certificate.pem"
    for made, name, more in (
        (authority, "authority", []),
        (certificate, host, ["-CA", str(authority), "-CAkey", str(authority), "-addext", "basicConstraints=CA:FALSE"]),
    ):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", *more]
        command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(made)]
        made.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout + made.read_bytes())
    return authority, certificate


@pytest.mark.root
@pytest.mark.skipif(shutil.which("openssl") is None, reason="program openssl is not installed")
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_source_distribution_behind_a_private_authority(
    anew: Path, named: str, monkeypatch: pytest.MonkeyPatch, installer: Any
) -> None:
    """A build runs pip again, for its tools. Older ones hand on no argument, so the authority comes by a variable."""
    for name in ("thing", "tool-of-build"):
        (anew / "site" / name).mkdir(parents=True)
    project = make_project(anew / "thing-1.0", "thing", "value = 42\n")
    table = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(table.replace("requires = []", 'requires = ["tool-of-build"]'))
    (project / "backend.py").write_text(f"import tool_of_build\n{(project / 'backend.py').read_text()}")
    (project / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    with tarfile.open(anew / "site/thing/thing-1.0.tar.gz", "w:gz") as archive:
        archive.add(project, "thing-1.0")
    make_wheel(anew / "site/tool-of-build", "tool_of_build", "1.0", "")
    authority, certificate = make_certificates(anew, named)
    with served(anew / "site", certificate) as port:
        given: dict[str, Any] = {"dependencies": ["thing"], "index_url": f"https://{named}:{port}/"}
        with pytest.raises(DependencyInstallError, match=r"thing: the certificate of the index is not known here"):
            run_code("1", installer=installer, **given)
        monkeypatch.setenv("PIP_CERT", str(authority))
        sources.configuration.cache_clear()
        done = run_code("import thing; thing.value", installer=installer, **given)
        assert (done.error, done.value) == (None, "42")


class SlowIndex(http.server.BaseHTTPRequestHandler):
    """An index of packages that answers no request until it is told to."""

    asked = threading.Event()
    answers = threading.Event()

    def do_GET(self) -> None:
        """Answer at last that there is no such package."""
        self.asked.set()
        self.answers.wait(60)
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.root
def test_an_mcp_server_answers_while_an_index_does_not(anew: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TRUSTED_HOST", named)
    with http.server.ThreadingHTTPServer((ADDRESS, 0), SlowIndex) as index:
        threading.Thread(target=index.serve_forever, daemon=True).start()
        url = f"http://{named}:{index.server_address[1]}/simple/"
        process = begin(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            arguments=("--with", "thing", "--index-url", url),
            XDG_CACHE_HOME=str(anew / "cache"),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        listed = answer_of(process)
        assert "Being installed, the first run waits: thing." in listed["result"]["tools"][0]["description"]
        assert SlowIndex.asked.wait(60)
        send(process, run_of(2, "1"), {"jsonrpc": "2.0", "id": 3, "method": "ping"})
        assert answer_of(process)["id"] == 3
        SlowIndex.answers.set()
        answer = answer_of(process)
        assert (answer["id"], answer["result"]["isError"]) == (2, True)
        index.shutdown()
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


RETRYING = (
    "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'ProxyError('No proxy.', "
    "OSError(\"Tunnel connection failed: 502 host 'a' cannot be resolved: Temporary failure\"))': /simple/x/"
)

BUILT = """
  error: subprocess-exited-with-error

  \u00d7 python setup.py egg_info did not run successfully.
  \u2570\u2500> [2 lines of output]
      The package is deprecated,
        use 'another'
      [end of output]

error: metadata-generation-failed
"""


@pytest.mark.parametrize(
    ("installer", "output", "reason"),
    [
        ("pip", "Collecting x\nERROR: No matching distribution found for x\n", "No matching distribution found for x"),
        ("pip", "  ERROR: No matching distribution found for tools\n", "No matching distribution found for tools"),
        ("pip", "  Could not fetch: [SSL: CERTIFICATE_VERIFY_FAILED]\nERROR: x\n", "the certificate of the index"),
        ("pip", "", "pip failed"),
        ("pip", BUILT, "metadata-generation-failed:\nThe package is deprecated,\n  use 'another'"),
        ("pip", BUILT.replace("The package", "x" * 5000), f"metadata-generation-failed:\n{'x' * 900}"),
        ("pip", f"{RETRYING}\nERROR: No matching distribution found for x\n", "the index cannot be reached: host 'a'"),
        ("pip", f"{RETRYING.replace('total=0', 'total=1')}\nERROR: bad\n", "bad"),
        ("uv", "Using Python\n  \u00d7 No solution:\n  \u2570\u2500\u25b6 Because x\n", "No solution: Because x"),
        ("uv", "error: cannot read\n", "error: cannot read"),
        ("uv", "error: x\n  Caused by: invalid peer certificate: UnknownIssuer\n", "the certificate of the index"),
    ],
)  # fmt: skip
def test_the_reason_of_a_failure(installer: str, output: str, reason: str) -> None:
    assert reason_of(output, installer).startswith(reason)
