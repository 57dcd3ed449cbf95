"""Run untrusted Python, each call in a fresh container of pysbx-runtime.

Importing the package imports none of its modules. A name is looked up in its module at first use (PEP 562), because
the modules behind all names take longer to import than a sandbox takes to start.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysbx.calls.asynchronous import AsyncSandbox, run_code_async
    from pysbx.calls.decorator import sandbox, sandbox_async
    from pysbx.calls.execution import Execution, ExecutionError, run_code
    from pysbx.calls.processes import Process, ProcessOutput
    from pysbx.calls.saved import Checkpoint
    from pysbx.calls.session import Sandbox
    from pysbx.calls.tools import Tools, tool_stubs
    from pysbx.errors import (
        DependencyInstallError,
        ForgedAnswerError,
        LimitsNotEnforceableError,
        PlatformNotSupportedError,
        PodmanNotInstalledError,
        PolicyViolationError,
        SandboxError,
        SandboxExecutionError,
        SandboxFileError,
        SandboxFileExistsError,
        SandboxFileNotFoundError,
        SandboxFileTooLargeError,
        SandboxInvalidPathError,
        SandboxIsADirectoryError,
        SandboxMemoryError,
        SandboxNotADirectoryError,
        SandboxNotRegularFileError,
        SandboxOptionError,
        SandboxPausedError,
        SandboxPermissionError,
        SandboxStartupError,
        SandboxTimeoutError,
        SerializationError,
        Violation,
    )
    from pysbx.options.hints import ErrorReport, explain
    from pysbx.options.keywords import SandboxOptions
    from pysbx.options.mount import Mount
    from pysbx.packages.progress import install_progress

    __version__: str

__all__ = [
    "AsyncSandbox",
    "Checkpoint",
    "DependencyInstallError",
    "ErrorReport",
    "Execution",
    "ExecutionError",
    "ForgedAnswerError",
    "LimitsNotEnforceableError",
    "Mount",
    "PlatformNotSupportedError",
    "PodmanNotInstalledError",
    "PolicyViolationError",
    "Process",
    "ProcessOutput",
    "Sandbox",
    "SandboxError",
    "SandboxExecutionError",
    "SandboxFileError",
    "SandboxFileExistsError",
    "SandboxFileNotFoundError",
    "SandboxFileTooLargeError",
    "SandboxInvalidPathError",
    "SandboxIsADirectoryError",
    "SandboxMemoryError",
    "SandboxNotADirectoryError",
    "SandboxNotRegularFileError",
    "SandboxOptionError",
    "SandboxOptions",
    "SandboxPausedError",
    "SandboxPermissionError",
    "SandboxStartupError",
    "SandboxTimeoutError",
    "SerializationError",
    "Tools",
    "Violation",
    "explain",
    "install_progress",
    "run_code",
    "run_code_async",
    "sandbox",
    "sandbox_async",
    "tool_stubs",
]

# The names of __all__ by their modules; those of errors are all others.
_MODULES: dict[str, tuple[str, ...]] = {
    "errors": (),
    "calls.asynchronous": ("AsyncSandbox", "run_code_async"),
    "calls.decorator": ("sandbox", "sandbox_async"),
    "calls.execution": ("Execution", "ExecutionError", "run_code"),
    "options.hints": ("ErrorReport", "explain"),
    "options.keywords": ("SandboxOptions",),
    "options.mount": ("Mount",),
    "packages.progress": ("install_progress",),
    "calls.processes": ("Process", "ProcessOutput"),
    "calls.saved": ("Checkpoint",),
    "calls.session": ("Sandbox",),
    "calls.tools": ("Tools", "tool_stubs"),
}
_MODULE_OF = dict.fromkeys(__all__, "errors") | {name: module for module, names in _MODULES.items() for name in names}

# Type checkers read the imports above. They would accept any name of a module that has a __getattr__.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the module of a name, and keep what the name stands for."""
        from importlib import import_module  # noqa: PLC0415 (not needed to import the package)

        if name == "__version__":
            return import_module("pysbx.version").VERSION
        if name in _MODULES:
            return import_module(f"pysbx.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'pysbx' has no attribute '{name}'", name=name, obj=sys.modules[__name__])
        if sys.platform == "win32" and _MODULE_OF[name] != "errors":
            from pysbx.errors import PlatformNotSupportedError, unsupported  # noqa: PLC0415 (as above)

            # Other modules need some of Python's own that exist on Unix alone.
            raise PlatformNotSupportedError(unsupported())
        value = globals()[name] = getattr(import_module(f"pysbx.{_MODULE_OF[name]}"), name)
        return value

    def __dir__() -> list[str]:
        """Return the names of __all__ and Python's own."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
