"""An agent of deepagents whose commands run in a sandbox. The model is scripted, so no account is needed."""

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from pysbx.frameworks.deepagents import PysbxBackend


class Scripted(GenericFakeChatModel):
    """A model that says what it was given."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Take tools."""
        return self


call = {"name": "execute", "args": {"command": "echo $((6 * 7)) >answer; cat answer"}, "id": "1"}
model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("It is 42.")]))
backend = PysbxBackend(memory_mb=1024)
agent = create_deep_agent(model=model, backend=backend)
for message in agent.invoke({"messages": [("user", "What is 6 * 7?")]})["messages"]:
    print(message.type, str(message.content).split())
backend.close()
# human ['What', 'is', '6', '*', '7?']
# ai []
# tool ['42', '[Command', 'succeeded', 'with', 'exit', 'code', '0]']
# ai ['It', 'is', '42.']
