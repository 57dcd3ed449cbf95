"""An agent of Strands whose tools work in a session. The model is scripted."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models.model import Model

from pysbx.frameworks.strands import PysbxSandbox


class Scripted(Model):
    """A model that calls python_repl, and then says what it has printed."""

    update_config = get_config = structured_output = lambda self, *_, **__: {}

    async def stream(self, messages: Any, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        """Say the next message."""
        yield {"messageStart": {"role": "assistant"}}
        if len(messages) == 1:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "python_repl", "toolUseId": "1"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"code": "print(6 * 7)"})}}}}
        else:
            result = json.loads(messages[-1]["content"][0]["toolResult"]["content"][0]["text"])
            yield {"contentBlockDelta": {"delta": {"text": f"It is {result['output'].strip()}."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if len(messages) == 1 else "end_turn"}}


async def main() -> None:
    sandbox = PysbxSandbox(memory_mb=1024)
    agent = Agent(model=Scripted(), sandbox=sandbox, callback_handler=None)
    print(str(await agent.invoke_async("What is 6 * 7?")).strip())
    await sandbox.close()


asyncio.run(main())
# It is 42.
