"""Run Python nobody has read, each call in a fresh container of pysbx-runtime."""

from pysbx.decorator import sandbox, sandbox_async
from pysbx.errors import (
    DependencyInstallError,
    ForgedAnswerError,
    LimitsNotEnforceableError,
    PlatformNotSupportedError,
    PodmanNotInstalledError,
    PolicyViolationError,
    SandboxError,
    SandboxExecutionError,
    SandboxMemoryError,
    SandboxStartupError,
    SandboxTimeoutError,
    SerializationError,
    Violation,
)
from pysbx.execution import Execution, ExecutionError, run_code
from pysbx.hints import ErrorReport, explain
from pysbx.interpreter import Mount
from pysbx.keywords import SandboxOptions
from pysbx.session import Sandbox

__all__ = [
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
    "Sandbox",
    "SandboxError",
    "SandboxExecutionError",
    "SandboxMemoryError",
    "SandboxOptions",
    "SandboxStartupError",
    "SandboxTimeoutError",
    "SerializationError",
    "Violation",
    "explain",
    "run_code",
    "sandbox",
    "sandbox_async",
]
