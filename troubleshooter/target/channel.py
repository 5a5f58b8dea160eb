"""The channel on which a script of this folder reports, in the target Python: `channel.py NONCE SCRIPT ARGUMENT…`

Its lines survive whatever the target does: prints of its own go to stderr, lines carry a nonce that is not in
sys.argv any more, and a line stands before and after each step, so that the last one names the step that died.

Imports modules that are built into the interpreter and nothing else. A user's own `random.py` or `json.py` may be the
fault that is looked for; had we imported the true one first, torch would find it and the fault would hide.
"""

import os
import sys
import time

_LONGEST_TEXT = 16000
_write, _dup, _dup2, _end, _clock = os.write, os.dup, os.dup2, os._exit, time.time
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


class Skipped(Exception):
    """A step that cannot be done with this torch. The text says what is missing."""


def encode(value):
    """JSON in pure ASCII, without the json module. Texts are cut, NaN and infinity become text."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        text = float.__repr__(value)
        return text if text.strip("-0123456789.e+") == "" else '"' + text + '"'
    if isinstance(value, dict):
        return "{" + ",".join(encode(str(key)) + ":" + encode(entry) for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(encode(entry) for entry in value) + "]"
    try:
        text = value if type(value) is str else str(value)
        text = "".join(text)
    except BaseException:
        text = "<no text>"
    return '"' + "".join(map(_letter, shorten(text))) + '"'


def _letter(letter):
    code = ord(letter)
    if code in _SHORT:
        return _SHORT[code]
    if 32 <= code < 127:
        return letter
    if code > 0xFFFF:
        code -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "\\u%04x" % code


def shorten(text, longest=_LONGEST_TEXT):
    if len(text) <= longest:
        return text
    half = longest // 2
    return "%s\n[%d characters left out]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def text_of(error):
    try:
        return str(error)
    except BaseException:
        return "<no text>"


def describe(error):
    """Type, message, last line and traceback of an exception whose own methods may fail."""
    kind = type(error)
    module = getattr(kind, "__module__", "") or ""
    name = getattr(kind, "__qualname__", "") or kind.__name__
    if module not in ("builtins", "exceptions", "__main__"):
        name = "%s.%s" % (module, name)
    message = text_of(error)
    lines = [line for line in message.splitlines() if line.strip()]
    return {
        "type": name,
        "message": message,
        # The first line of a message of CUDA is the telling one; what follows is advice that is always the same.
        "line": shorten("%s: %s" % (name, lines[0].strip()) if lines else name, 2000),
        "last_line": shorten(lines[-1].strip() if lines else name, 2000),
        "traceback": trace_of(error),
    }


def trace_of(error):
    try:
        traceback = from_stdlib("traceback")
        return shorten("".join(traceback.format_exception(type(error), error, without_ours(error.__traceback__))))
    except BaseException:
        places, place = [], getattr(error, "__traceback__", None)
        while place is not None and len(places) < 200:
            code = place.tb_frame.f_code
            places.append('  File "%s", line %d, in %s' % (code.co_filename, place.tb_lineno, code.co_name))
            place = place.tb_next
        head = ["Traceback (most recent call last):"] + places[-40:]
        return shorten("\n".join(head + ["%s: %s" % (type(error).__name__, text_of(error))]))


def without_ours(place):
    """The traceback from the first frame that is not of a script of this folder."""
    first = place
    while place is not None and is_ours(place.tb_frame.f_code.co_filename):
        place = place.tb_next
    return place or first


def is_ours(path):
    return os.path.dirname(path) == os.path.dirname(run.__code__.co_filename)


def from_stdlib(name, keep=True):
    """A module of the standard library, even where a file in the working folder has its name.

    With `keep` false it does not stay in sys.modules, so that what torch imports later is found as ever.
    """
    if name in sys.modules:
        return sys.modules[name]
    before = set(sys.modules)
    path = list(sys.path)
    library = os.path.dirname(os.__file__)
    sys.path[:] = [library, os.path.join(library, "lib-dynload"), os.path.join(sys.base_prefix, "DLLs")] + path
    try:
        module = __import__(name, None, None, ["*"])
    finally:
        sys.path[:] = path
        if not keep:
            for added in set(sys.modules) - before:
                sys.modules.pop(added, None)
    return module


class Channel:
    """One JSON object a line, each led by the nonce."""

    Skipped = Skipped
    describe = staticmethod(describe)
    from_stdlib = staticmethod(from_stdlib)

    def __init__(self, nonce):
        self._nonce = nonce.encode("ascii")
        self._began = _clock()
        try:
            sys.stdout.flush()
        except BaseException:
            pass
        try:
            self._out = _dup(1)
            _dup2(2, 1)
        except OSError:
            self._out = 2

    def say(self, event, **values):
        values["event"] = event
        values["at"] = round(_clock() - self._began, 3)
        # Begins with a line end: something may have printed half a line before us.
        data = b"\n" + self._nonce + b" " + encode(values).encode("ascii") + b"\n"
        while data:
            try:
                data = data[_write(self._out, data) :]
            except OSError:
                if self._out == 2:
                    return
                self._out = 2  # a torch that closes every descriptor closed ours

    def step(self, name, work, **about):
        """Do `work` between a line before and a line after; returns (whether it went well, its value)."""
        self.say("before", step=name, **about)
        began = _clock()
        warned = []
        try:
            with _Warnings(warned):
                value = work()
        except Skipped as reason:
            self._after(name, "skipped", began, warned, reason=text_of(reason), **about)
            return False, None
        except BaseException as error:
            self._after(name, "failed", began, warned, error=describe(error), **about)
            return False, None
        self._after(name, "ok", began, warned, value=value if isinstance(value, dict) else {}, **about)
        return True, value

    def _after(self, name, outcome, began, warned, **values):
        took = round(_clock() - began, 3)
        self.say("after", step=name, outcome=outcome, took=took, warnings=warned[:20], **values)

    @staticmethod
    def script(name):
        """The names that another script of our folder defines."""
        return names_of(os.path.join(os.path.dirname(run.__code__.co_filename), name))

    def border(self, event):
        """A line of this name on both streams, so that what is printed after it can be told from what was before."""
        self.say(event)
        if self._out == 2:
            return
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
        try:
            _write(2, b"\n" + self._nonce + b" " + encode({"event": event}).encode("ascii") + b"\n")
        except OSError:
            pass

    def end(self):
        """Leave at once: threads or exit handlers of a broken torch may never end."""
        self.say("end")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass
        _end(0)


class _Warnings:
    """Collects the texts of warnings, where the target has the warnings module already."""

    def __init__(self, texts):
        self._texts = texts
        self._catcher = None

    def __enter__(self):
        warnings = sys.modules.get("warnings")
        try:
            catcher = warnings.catch_warnings(record=True)
            self._caught = catcher.__enter__()
            self._catcher = catcher
            warnings.simplefilter("default")
        except BaseException:
            pass

    def __exit__(self, *ignored):
        if self._catcher is None:
            return
        try:
            for warning in self._caught or ():
                self._texts.append("%s: %s" % (warning.category.__name__, text_of(warning.message)))
            self._catcher.__exit__(None, None, None)
        except BaseException:
            pass


def no_core_dump():
    """A crash is expected here, and its core file would land in the user's folder."""
    try:
        from_stdlib("resource", keep=False).setrlimit(4, (0, 0))  # 4 is RLIMIT_CORE on Linux and macOS
    except BaseException:
        pass


def name_the_place_of_a_crash():
    # On Windows it would also print for exceptions that are handled afterwards.
    if os.name != "nt":
        try:
            import faulthandler

            faulthandler.enable(2)
        except BaseException:
            pass


def names_of(script):
    """The names that a script of this folder defines."""
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    names = {"__name__": "troubleshooter_target", "__file__": script}
    exec(code, names)
    return names


def run(nonce, script, arguments):
    channel = Channel(nonce)
    no_core_dump()
    name_the_place_of_a_crash()
    try:
        names = names_of(script)
        channel.say("started", version="%d.%d.%d" % sys.version_info[:3])
        names["main"](channel, arguments)
    except BaseException as error:
        channel.say("broken", error=describe(error))
    channel.end()


if __name__ == "__main__":
    _nonce, _script, _arguments = sys.argv[2], sys.argv[3], sys.argv[4:]
    sys.argv[1:] = []
    run(_nonce, _script, _arguments)
