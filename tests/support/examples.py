"""Tests of drawn values with few examples in the default suite and many in the long forms.

    @examples(5, 25, rows=batches)
    def test_rows_are_read_back(kind: str, rows: list[Any]) -> None: ...

takes the place of hypothesis' `settings` and `given`; other arguments are fixtures and parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., None]
UNSHRUNK = settings(
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
"""For tests that write whole tables: to shrink a failure would take minutes."""


def stops(few: int, many: int = 1) -> pytest.MarkDecorator:
    """The parameter one_in: of the steps at which an operation can stop, one in `few` is tried,
    in a long case one in `many`."""
    return pytest.mark.parametrize("one_in", [few, pytest.param(many, marks=pytest.mark.long)])


def examples(
    few: int, many: int, how: settings | None = None, **drawn: SearchStrategy[Any]
) -> Callable[[Test], Test]:
    """`few` examples, and in a long case `many`; how: other settings of hypothesis."""

    def decorated(test: Test) -> Test:
        def run(examples: int, **arguments: Any) -> None:
            settings(how, max_examples=examples)(given(**drawn)(test))(**arguments)

        known = inspect.signature(test).parameters
        own = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        left = [parameter for name, parameter in known.items() if name not in drawn]
        run.__signature__ = inspect.Signature([own, *left])  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__qualname__ = test.__qualname__
        cases = [few, pytest.param(many, marks=pytest.mark.long)]
        marked: Test = pytest.mark.parametrize("examples", cases)(run)
        return marked

    return decorated
