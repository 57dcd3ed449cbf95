"""An agent of Pydantic AI with a tool that runs commands in a sandbox. The model is scripted."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import Workspace

from pysbx.frameworks.pydantic_ai import PysbxWorkspaceBackend


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool, and then say what it has returned."""
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("shell", {"command": "echo $((6 * 7))"})])
    return ModelResponse(parts=[TextPart(f"It is {messages[-1].parts[0].content.strip()}.")])


async def main() -> None:
    """Ask the agent."""
    backend = PysbxWorkspaceBackend(memory_mb=1024)
    workspace, agent = Workspace(backend), Agent(FunctionModel(script))

    @agent.tool_plain
    async def shell(command: str) -> str:
        return (await workspace.run(command, shell=True, timeout=30)).stdout

    print((await agent.run("What is 6 * 7?")).output)
    await backend.destroy()


asyncio.run(main())
# It is 42.
