"""A CodeAgent of smolagents whose code runs in a session, which keeps its names. The model is scripted."""

from typing import Any

from smolagents import CodeAgent
from smolagents.models import ChatMessage, MessageRole, Model

from pysbx.frameworks.smolagents import PysbxExecutor


class Scripted(Model):
    """A model that says what it was given."""

    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="scripted")
        self.steps = list(steps)

    def generate(self, messages: list[Any], **options: Any) -> ChatMessage:
        """Return the next step."""
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: so.\n<code>\n{self.steps.pop(0)}\n</code>")


executor = PysbxExecutor(memory_mb=1024)
agent = CodeAgent(
    tools=[], model=Scripted("x = 6 * 7", "final_answer(f'It is {x}.')"), executor=executor, verbosity_level=0
)
print(agent.run("What is 6 * 7?"))
executor.cleanup()
# Initializing executor, hold on...
# It is 42.
