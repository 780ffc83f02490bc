"""Functions as tasks: they run in warm workers, thousands a second, sync or async.

Executors import the modules that they are told of, and offer what is registered in them:

    PYTHONPATH=examples TICKWISE_FUNCTION_MODULES=functions tickwise up
    tickwise run --function reports.count_words --param text='one two three' --now --wait
    tickwise run --function reports.remind --param who=Ada --every 1h
"""

from typing import Any

from tickwise_sdk import Context, PermanentError, task


@task("reports.count_words")
def count_words(payload: dict[str, Any]) -> dict[str, int]:
    """What a function returns is kept as the run's result."""
    text = payload.get("text")
    if not isinstance(text, str):
        # No retry can help here; any other exception would be tried again.
        raise PermanentError("the parameter `text` is missing, or no text")
    return {"words": len(text.split())}


@task("reports.remind")
async def remind(context: Context, payload: dict[str, Any]) -> None:
    """What a function prints is kept as the run's log."""
    print(f"Dear {payload.get('who', 'all')}, it is {context.due_time:%H:%M} UTC. (attempt {context.attempt})")


@task("reports.nothing")
def nothing() -> None:
    """Does nothing: `tickwise bench --function reports.nothing` measures all that is around it."""
