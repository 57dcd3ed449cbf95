"""An agent of AG2 whose code runs in a sandbox. The model is scripted."""

import asyncio
import json

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig, TrackingConfig
from ag2.tools import SandboxCodeTool

from pysbx.frameworks.ag2 import PysbxSandbox


async def main() -> None:
    """Ask the agent, and show what the model has read."""
    call = ToolCallEvent("run_code", arguments=json.dumps({"code": "print(6 * 7)", "language": "python"}))
    config = TrackingConfig(TestConfig(call, "It is 42."))
    async with PysbxSandbox(memory_mb=1024) as sandbox:
        reply = await Agent("example", config=config, tools=[SandboxCodeTool(sandbox)]).ask("What is 6 * 7?")
    print("42" in str(config.mock.call_args_list[-1]), reply.body)


asyncio.run(main())
# True It is 42.
