"""Objects that stand for something of this process, such as a session."""

from typing import NoReturn


class Handle:
    """An object that is neither copied nor pickled: the copy would have no session, or one that another object ends."""

    def __reduce__(self) -> NoReturn:
        """Refuse it; modules like copy, pickle and multiprocessing call this."""
        kind = type(self).__name__
        raise TypeError(
            f"a {kind} belongs to this process, so it is neither copied nor pickled: "
            "pass the text of Sandbox.reference, and call Sandbox.attach() with it there"
        )
