"""An agent of LlamaIndex with a function as tool: a new sandbox runs each call. The model is scripted."""

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from pysbx import run_code


def python(code: str) -> str:
    """Run Python code. It can print, and end with an expression."""
    return run_code(code, timeout_sec=30).to_text()


def say(messages: list[ChatMessage], **options: Any) -> ChatMessage:
    """Call the tool, and then say what it has returned."""
    if messages[-1].role == "tool":
        return ChatMessage(f"It is {messages[-1].content.strip()}.", role="assistant")
    call = ToolCallBlock(tool_call_id="1", tool_name="python", tool_kwargs={"code": "print(6 * 7)"})
    return ChatMessage(role="assistant", blocks=[call])


async def main() -> None:
    """Ask the agent."""
    agent = FunctionAgent(tools=[python], llm=MockFunctionCallingLLM(response_generator=say))
    print(await agent.run("What is 6 * 7?"))


asyncio.run(main())
# It is 42.
