"""The limits that callers may choose, as fields of a request: derived from the declarations of the options."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, Field, create_model

from pysbx.declaration import Number
from pysbx.keywords import OPTIONS
from pysbx.service.offer import LIMITS

M = TypeVar("M", bound=BaseModel)


def bounds(name: str) -> dict[str, Any]:
    """Return the bounds of a number that the schema of a field has; the exact ones are the server's own limits."""
    declared = OPTIONS[name]
    check = declared.option.check
    assert isinstance(check, Number), name
    found: dict[str, Any] = {"ge": 0} if check.least == 0 else {"gt": 0}
    return found if declared.type is int else {**found, "allow_inf_nan": False}


def with_limits(model: type[M]) -> type[M]:
    """Return a model of pydantic with a field more for each of LIMITS, none of which has to be given."""
    fields: dict[str, Any] = {
        name: (OPTIONS[name].type | None, Field(None, description=OPTIONS[name].option.help, **bounds(name)))
        for name in LIMITS
    }
    made: type[M] = create_model(
        model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
    )
    return made
