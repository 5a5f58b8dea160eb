"""Consent to a test of the whole memory of a GPU: who uses it now, and what a person says to that."""

from collections.abc import Callable, Mapping

from .interpreter import environment_of_children, gpu_subject, run_script
from .machine import Machine

Uses = Mapping[str, tuple[str, ...] | None]
"""What uses each GPU beside us, in words; None where that cannot be told."""


def who_uses(machine: Machine, python: str, *, seconds: float = 25.0) -> Uses:
    """Asked of the driver in a process of its own; empty if it does not start. `python` is any interpreter."""
    run = run_script(
        machine,
        python,
        "driver_tests.py",
        ["--use"],
        seconds=seconds,
        alive_limit=seconds,
        env=environment_of_children(machine.environ),
    )
    uses: dict[str, tuple[str, ...] | None] = {}
    for event in run.events:
        if event.get("event") == "use" and isinstance(device := event.get("device"), int):
            users = event.get("users")
            uses[gpu_subject(device, machine.environ)] = None if users is None else tuple(map(str, users))
    return uses


def why_not(uses: Uses, *, yes: bool, ask: Callable[[str], str] | None) -> str:
    """Why the whole card may not be tested; empty if it may. `ask` puts a question to a person; None: no terminal.

    A card that nothing uses needs no consent. Anything but "y" and "yes" is a no.
    """
    busy = [
        f"{subject} is used by {' and '.join(users)}" if users else f"whether something uses {subject} cannot be told"
        for subject, users in uses.items()
        if users is None or users
    ]
    if not busy or yes:
        return ""
    said = "; ".join(busy)
    if ask is None:
        return f"{said}. A test of the whole card needs --yes then, as there is no terminal to ask on."
    answer = ask(f"{said}. A test of the whole memory can slow or end what runs there. Test it all the same? [y/N] ")
    return "" if answer.strip().lower() in ("y", "yes") else f"{said}, and the answer was no"
