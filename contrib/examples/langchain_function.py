"""An agent of LangChain with a function as tool: a new sandbox runs each call. The model is scripted."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from pysbx import run_code


class Scripted(GenericFakeChatModel):
    """A model that says what it was given."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Take tools."""
        return self


def python(code: str) -> str:
    """Run Python code. It can print, and end with an expression."""
    return run_code(code, timeout_sec=30).to_text()


call = {"name": "python", "args": {"code": "print(6 * 7)"}, "id": "1"}
model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("It is 42.")]))
agent = create_agent(model, tools=[python])
for message in agent.invoke({"messages": [("user", "What is 6 * 7?")]})["messages"][2:]:
    print(message.type, str(message.content).strip())
# tool 42
# ai It is 42.
