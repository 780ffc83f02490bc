"""The text of a script that runs in a container."""

from __future__ import annotations

from tickwise.adapters.runner.kinds import PythonKind
from tickwise.adapters.runner.process.start import TaskText, text_of
from tickwise.domain.errors import Invalid
from tickwise.ports.blobs import Blobs
from tickwise.ports.runner import Assignment


async def contained_text(assignment: Assignment, blobs: Blobs) -> TaskText:
    """The contents of a script. Raises `Invalid` for one that declares packages, and `NotFound`."""
    text = await text_of(assignment, blobs)
    if text.source is not None:
        source = text.source.decode(errors="replace")
        if PythonKind().environment_of(assignment.namespace, assignment.task, source) is not None:
            raise Invalid(
                "its script declares packages, and a container has those of its image: put them into the image, "
                "and take the declaration away"
            )
    return text
