"""The conformance suite that Pydantic AI has for backends of workspaces, as it is."""

# once: an adapter says the same to its framework as root

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from pydantic_ai.workspaces import WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from pysbx.frameworks.pydantic_ai import PysbxWorkspaceBackend


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestPysbx(WorkspaceBackendSuite):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[PysbxWorkspaceBackend]:
        backend = PysbxWorkspaceBackend()
        yield backend
        await backend.destroy()

    @pytest.fixture
    def fresh_backend(self) -> Callable[[], PysbxWorkspaceBackend]:
        return PysbxWorkspaceBackend

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], PysbxWorkspaceBackend]:
        return PysbxWorkspaceBackend

    @pytest.fixture
    def destroy_environment(self) -> Callable[[PysbxWorkspaceBackend], Awaitable[None]]:
        return PysbxWorkspaceBackend.destroy
