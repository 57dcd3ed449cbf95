"""Objects in place of those of the standard library, which note how the imports use them."""

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    import posix
    import sys
    from typing import Any

    from packages import FIRST_ITEM, at
    from probe_look import path_of
    from probe_watch import Watch

QUIET = "/dev/.pysbx-quiet/"


class Variables(dict[bytes, bytes]):
    """The dictionary of os.environ. It notes which variables the imports look at."""

    looked_at: set[bytes] = set()
    all_looked_at = False
    ONE = "__contains__", "__getitem__", "get", "pop", "setdefault"  # methods that look at one variable
    ALL = (  # methods that look at all
        *("__eq__", "__iter__", "__len__", "__ne__", "__or__", "__reduce_ex__", "__repr__", "__reversed__", "__ror__"),
        *("copy", "items", "keys", "popitem", "values"),
    )

    @classmethod
    def watch(cls) -> None:
        """Replace each method of a dictionary by one that notes the variables it looks at."""

        def noting_one(method):  # type: ignore[no-untyped-def]
            def look(self, name, *default):  # type: ignore[no-untyped-def]
                cls.looked_at.add(name)
                return method(self, name, *default)

            return look

        def noting_all(method):  # type: ignore[no-untyped-def]
            def look(self, *given):  # type: ignore[no-untyped-def]
                cls.all_looked_at = True
                return method(self, *given)

            return look

        for name in cls.ONE:
            setattr(cls, name, noting_one(getattr(dict, name)))  # type: ignore[no-untyped-call]
        for name in filter(lambda name: hasattr(dict, name), cls.ALL):  # | exists since 3.9
            setattr(cls, name, noting_all(getattr(dict, name)))  # type: ignore[no-untyped-call]


class Heard:
    """A function of os that notes its first argument. Like the function, it does not become a method in a class.

    `quiet`: the function asks only whether a file exists, but its system call asks for more. The runtime treats calls
    in the meantime as such a question (WARM_QUIET in runtime/warm/params.h).
    """

    def __init__(self, function: "Any", note: "Any", quiet: bool = False) -> None:
        self.function = function
        self.note = note
        self.quiet = quiet

    def __call__(self, *given: object, **named: object) -> object:
        path = given[0] if given else named.get("path")
        self.note(path if named.get("dir_fd") is None else path_of(named["dir_fd"], path))
        if not self.quiet:
            return self.function(*given, **named)
        posix.access(f"{QUIET}1", 0)
        try:
            return self.function(*given, **named)
        finally:
            posix.access(f"{QUIET}0", 0)

    def __getattr__(self, name: str) -> object:
        return getattr(self.function, name)


class Machine(tuple[str, ...]):
    """The result of os.uname(). It notes that a caller reads its second item, the host name."""

    asked = False

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if type(self) is Machine and index in (1, -4):
            Machine.asked = True
        return tuple.__getitem__(self, index)

    @property
    def nodename(self) -> str:
        Machine.asked = True
        return tuple.__getitem__(self, 1)

    @property
    def sysname(self) -> str:
        return tuple.__getitem__(self, 0)

    @property
    def release(self) -> str:
        return tuple.__getitem__(self, 2)

    @property
    def version(self) -> str:
        return tuple.__getitem__(self, 3)

    @property
    def machine(self) -> str:
        return tuple.__getitem__(self, 4)


class Places(list[str]):
    """sys.path. It notes questions about its first item, which depends on the program."""

    def __init__(self, places: "list[str]", watch: "Watch") -> None:
        list.__init__(self, places)
        self.watch = watch

    def note(self) -> None:
        if self.watch.listens and sys._getframe(2).f_globals.get("__name__") not in at(FIRST_ITEM):
            self.watch.refused.append("look at the first item of sys.path, which depends on the program")

    def __contains__(self, place: object) -> bool:
        if place in ("", posix.getcwd()):
            self.note()
        return list.__contains__(self, place)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if index == 0 or (isinstance(index, slice) and index.start in (None, 0) and index != slice(None)):
            self.note()
        return list.__getitem__(self, index)

    def index(self, place, *limits):  # type: ignore[no-untyped-def]
        if place == "":
            self.note()
        return list.index(self, place, *limits)
