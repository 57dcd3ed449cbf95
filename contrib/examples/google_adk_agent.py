"""An agent of Google's ADK whose code runs in a session. The model is scripted."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from pysbx.frameworks.google_adk import PysbxCodeExecutor


class Scripted(BaseLlm):
    """A model that says what it was given."""

    texts: list[str]

    async def generate_content_async(self, request: object, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.ModelContent(self.texts.pop(0)))


async def main(executor: PysbxCodeExecutor) -> None:
    model = Scripted(model="scripted", texts=["```python\nx = 6 * 7\nprint(x)\n```", "It is 42."])
    runner = InMemoryRunner(agent=LlmAgent(name="example", model=model, code_executor=executor), app_name="example")
    session = await runner.session_service.create_session(app_name="example", user_id="user")
    question = types.UserContent("What is 6 * 7?")
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=question):
        for part in event.content.parts if event.content else ():
            if part.code_execution_result or part.text:
                print((part.text or part.code_execution_result.output).split()[-1])


executor = PysbxCodeExecutor(stateful=True, memory_mb=1024)
asyncio.run(main(executor))
executor.close()
# 42
# 42.
