"""A SandboxAgent of the OpenAI Agents SDK whose shell is in a sandbox. The model is scripted."""

import asyncio
import json

from agents import RunConfig, Runner, set_tracing_disabled
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.testing.model import ScriptedModel, assistant_message, function_call

from pysbx.frameworks.openai_agents import PysbxSandboxClient, PysbxSandboxClientOptions

set_tracing_disabled(True)
command = json.dumps({"cmd": "echo $((6 * 7)) >answer; cat answer"})
model = ScriptedModel([[function_call("exec_command", command, call_id="1")], [assistant_message("It is 42.")]])
agent = SandboxAgent(name="example", model=model, capabilities=[Shell()])
options = PysbxSandboxClientOptions(memory_mb=1024)
config = RunConfig(sandbox=SandboxRunConfig(client=PysbxSandboxClient(), options=options))
done = asyncio.run(Runner.run(agent, "What is 6 * 7?", run_config=config))
(output,) = (item.output for item in done.new_items if item.type == "tool_call_output_item")
print(output.splitlines()[-1])
print(done.final_output)
# 42
# It is 42.
