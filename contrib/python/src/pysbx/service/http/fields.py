"""The limits that callers may choose, as fields of a request: derived from the declarations of the options."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, create_model

from pysbx.options.declaration import Number
from pysbx.options.keywords import OPTIONS
from pysbx.service.sandboxes.choices import LIMITS

M = TypeVar("M", bound=BaseModel)


def bounds(name: str) -> dict[str, Any]:
    """Return the bounds of a number that the schema of a field has; the exact ones are the server's own limits."""
    declared = OPTIONS[name]
    check = declared.option.check
    assert isinstance(check, Number), name
    found: dict[str, Any] = {"gt": 0} if check.least is None else {"ge": check.least}
    return found if declared.type is int else {**found, "allow_inf_nan": False}


def whole(given: object) -> object:
    """Return a number without a fraction as an int, which 5.0 is in JSON."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def with_limits(model: type[M]) -> type[M]:
    """Return a model of pydantic with a field more for each of LIMITS, none of which has to be given."""
    fields: dict[str, Any] = {
        name: (
            Annotated[OPTIONS[name].type | None, BeforeValidator(whole)],
            Field(None, description=OPTIONS[name].option.help, **bounds(name)),
        )
        for name in LIMITS
    }
    made: type[M] = create_model(
        model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
    )
    return made
