"""An agent of CrewAI with a function as tool: a new sandbox runs each call. The model is scripted."""

import os
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TESTING="true")  # otherwise CrewAI tells its maker

from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

from pysbx import run_code  # noqa: E402


@tool("python")
def python(code: str) -> str:
    """Run Python code. It can print, and end with an expression."""
    return run_code(code, timeout_sec=30).to_text()


class Scripted(BaseLLM):
    """A model that calls the tool, and then says what it has returned."""

    def call(self, messages: Any, *arguments: Any, **options: Any) -> str:
        """Say the next message."""
        said = "".join(str(one["content"]) for one in messages if one["role"] == "assistant")
        if "Observation:" in said:
            return f"Thought: so.\nFinal Answer: It is {said.rpartition('Observation:')[2].strip()}."
        return 'Thought: compute.\nAction: python\nAction Input: {"code": "print(6 * 7)"}'


agent = Agent(role="computer", goal="to compute", backstory="None.", llm=Scripted(model="scripted"), tools=[python])
task = Task(description="What is 6 * 7?", expected_output="a sentence", agent=agent)
print(Crew(agents=[agent], tasks=[task]).kickoff().raw)
# It is 42.
