"""df -Pk: how much room a file system has."""

import re

# /dev/vda1   244506940 5501480 226549660       3% /
_LINE = re.compile(r"^.*[ \t](?P<size>\d+)[ \t]+\d+[ \t]+(?P<free>-?\d+)[ \t]+\S+[ \t]+(?P<mount>/.*)$")


def read_df(text: str) -> list[tuple[str, int, int]]:
    """(mount point, size in MiB, free in MiB) for each line, in the order of the paths that were asked for."""
    lines = [line for line in text.splitlines() if len(line) < 5000]
    return [
        (found["mount"], int(found["size"]) // 1024, int(found["free"]) // 1024)
        for line in lines
        if (found := _LINE.match(line))
    ]
