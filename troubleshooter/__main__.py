"""`troubleshoot` and `python -m troubleshooter`: the process around `cli.main`."""

import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of this process's arguments and end the process with its exit code."""
    # A start makes tens of thousands of objects and hardly any garbage: looking for it takes a tenth of a short run.
    gc.set_threshold(100_000, 50, 100)
    from .cli import main as run

    code = run()
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End at once. Freeing every object first, as the interpreter does, takes another tenth."""
    import atexit
    from contextlib import suppress

    with suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # the reader went away, or it is closed
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
