"""The paths that the imports have looked at, as records for the snapshot's manifest."""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import posix
    import sys

    from bootstrap import MADE_FILES, TEMPORARY, Failed, put
    from probe_look import LEFT, NO_FILE, changed_at, closed_by, is_directory, is_link, kind_of
    from probe_trace import Trace
    from probe_watch import Watch

ELSEWHERE = ("/proc/", "/sys/", "/dev/")  # made for each container, so not part of a snapshot.
STANDARD_DEVICES = ("full", "null", "random", "tty", "urandom", "zero", "fd", "stdin", "stdout", "stderr", "shm", "pts")
AGENT_FILES = "/dev/.pysbx"  # the agent, and paths whose look-up is a message to the runtime (observe.h)


def places(watch: Watch) -> set[str]:
    """Return directories where the imports made files that are gone. A module may remember one for temporary files."""
    import os

    paths = {path for path in watch.made | watch.written if "__pycache__" not in path}
    found = {os.path.realpath(path if is_directory(path) else os.path.dirname(path)) for path in paths}
    return {p for p in found if not f"{p}/".startswith(ELSEWHERE) and os.access(p, os.W_OK, effective_ids=True)}


def add_openssl(watch: Watch) -> None:
    """Add the files that OpenSSL itself reads at its start: its configuration, and the certificates that it trusts."""
    import os.path

    if not {"_ssl", "_hashlib"}.intersection(sys.modules):
        return
    try:
        paths = __import__("_ssl").get_default_verify_paths()
    except Exception:  # without _ssl their place is unknown
        return
    watch.files.add(os.environ.get(paths[0]) or paths[1])
    found: set[str] = set()
    sought = [os.environ.get("OPENSSL_CONF") or os.path.join(os.path.dirname(paths[1]), "openssl.cnf")]
    while sought:
        path = sought.pop()
        if path in found:
            continue
        found.add(path)
        try:
            if is_directory(path):
                sought += [os.path.join(path, n) for n in os.listdir(path) if n.endswith((".cnf", ".conf"))]
                continue
            with open(path, "rb") as file:
                lines = [line.strip() for line in file]
        except (OSError, ValueError):
            continue
        sought += [os.fsdecode(line[8:].lstrip(b" \t=")) for line in lines if line.startswith(b".include")]
    watch.files |= found


def look_around(watch: Watch) -> None:
    """Add files that were looked at before there was an audit hook, and files that the import system looks for."""
    import os.path

    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})  # other attributes would load lazy modules
        source, cached = (names.get(attribute) for attribute in ("__file__", "__cached__"))
        seen = watch.files
        if isinstance(cached, str) and kind_of(cached) == "f":
            watch.files.add(cached)
            seen = watch.status  # the trace has the source if it was read after all
        if isinstance(source, str) and kind_of(source) != "a":
            seen.add(source)
        try:
            watch.directories.update(filter(lambda p: isinstance(p, str), names.get("__path__", ())))
        except Exception:  # __path__ may be any object
            pass
    for entry in sys.path:
        watch.directories.add(entry)
        if is_directory(entry):
            watch.files.update(os.path.join(entry, name) for name in os.listdir(entry) if name.endswith(".pth"))
    add_openssl(watch)
    watch.files.update(("/etc/ld.so.cache", "/etc/ld.so.preload"))
    home = os.path.dirname(sys.executable)
    watch.files.update(os.path.join(place, "pyvenv.cfg") for place in (home, os.path.dirname(home)))


def real_path(path: str, folders: dict[str, str], links: set[str]) -> str:
    """Return os.path.realpath(path). `folders` caches resolved directories; `links` gets the links on the way."""
    import os.path

    folder, name = os.path.split(path)
    if path == folder:
        return path
    if folder not in folders:
        folders[folder] = real_path(folder, folders, links)
    if name in ("", "."):
        return folders[folder]
    if name == "..":
        return os.path.dirname(folders[folder])
    path = os.path.join(folders[folder], name)
    if path in links:
        return os.path.realpath(path)
    if not is_link(path):
        return path
    links.add(path)
    return real_path(os.path.join(folders[folder], posix.readlink(path)), folders, links)


def path_records(watch: Watch, trace: Trace, libraries: "list[str]") -> set[bytes]:
    """Return records: which paths are files, directories or absent, and which are links.

    A link may lead elsewhere the next time. Libraries count only for their links, because the snapshot has records of
    their files.
    """
    import os.path

    folders: dict[str, str] = {}
    links: set[str] = set()
    known: dict[str, str] = {}
    here = posix.getcwd()

    def real(path: str) -> str:
        if path not in known:
            known[path] = real_path(os.path.join(here, path), folders, links)
        return known[path]

    paths = set(map(real, watch.files | watch.files_written() | watch.directories | trace.files))
    # The vdso and the program itself have no path.
    mapped = {real(library) for library in (*libraries, sys.executable) if "/" in library}
    asked = set(map(real, watch.status | trace.status | watch.files))
    scanned = set(map(real, watch.scanned))
    times = set(map(real, watch.times))
    times |= {path for path in trace.status if os.path.dirname(path) in scanned}
    opened = set(map(real, trace.files))
    kinds = {path: kind_of(path) for path in paths - (mapped - asked)}
    kinds.update((path, "c") for path in opened - asked if kinds.get(path) == "f")
    for looked_at, of_file in (watch.status | trace.status, "s"), (watch.presence | trace.presence, "p"):
        for path in set(map(real, looked_at)) - kinds.keys():
            of_directory = "d" if path in times else "D"
            kinds[path] = {"d": of_directory, "f": of_file, "a": "a"}[kind_of(path)]
    for path in [path for path, kind in kinds.items() if kind == "a"]:
        # The runtime sees files behind this directory, but a program in such a container does not.
        if closed := closed_by(path):
            del kinds[path]
            kinds[closed] = "d"
    # A listed directory covers absent files in it, because creating one changes the directory.
    listed = {path for path, kind in kinds.items() if kind == "d"}
    kinds = {path: kind for path, kind in kinds.items() if kind != "a" or os.path.dirname(path) not in listed}
    kinds.update((path, "l") for path in links)
    check_devices(kinds, times, watch.began)
    for path, kind in kinds.items():
        if path.startswith("/dev/") and not path.startswith(AGENT_FILES):
            trace.values.add(f"kind {path}" if kind == "a" else f"mode {path}")
            if kind == "d":
                trace.values.add(path)
    # The status of a directory, which code of Python has read, says whether something is mounted there.
    trace.values |= {f"mount {path}" for path in map(real, watch.status) if kinds.get(path) in ("d", "D")}
    if kinds.get("/dev") == "d":
        trace.values.add("/dev")
    # Add targets of links, because the trace does not know that these are files of the kernel.
    watch.files |= {path for path in paths if f"{path}/".startswith(("/proc/", "/sys/"))}
    trace.kernel |= {path for path in kinds if f"{path}/".startswith(("/proc/", "/sys/"))}
    # Every start makes the same files again, and fails if they exist.
    sought = kinds.keys() | trace.made | watch.made
    made = {path for path in sought if path.startswith(TEMPORARY) and changed_at(path) >= watch.began}
    LEFT.update(made)
    trace.values -= made | {f"{question} {path}" for path in made for question in ("mode", "write")}
    records = {put(kinds[path], path) for path in kinds.keys() - made if not f"{path}/".startswith(ELSEWHERE)}
    records |= {put("V", f"{NO_FILE.hex()}:kind {path}") for path in made}
    if made:
        records.add(put("g", MADE_FILES))
    return records | {put("o", path) for path in mapped}


def check_devices(kinds: "dict[str, str]", times: "set[str]", began: int) -> None:
    """Raise Failed for devices that not every container has, and for files in /dev/shm from before the imports.

    `times`: paths of which a caller may keep the whole status. Each container makes its /dev anew. Each process makes
    the files again that the imports have made there.
    """
    for path, kind in kinds.items():
        name = path.split("/")[2] if path.startswith("/dev/") else ""
        own = name in STANDARD_DEVICES and path not in times
        if path.startswith("/dev/shm/"):
            own = changed_at(path) >= began
        if name and kind != "a" and not path.startswith(AGENT_FILES) and not own:
            raise Failed(f"the imports look at '{path}', which not every container has")
