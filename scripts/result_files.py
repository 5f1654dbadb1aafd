"""What the scripts that measure rows and keep their figures share."""

import json
import pathlib


def save(path, text):
    """Writes a file that is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text)
    part.replace(path)


def reading_of(path):
    """The section of a page that is kept by hand when the rest of it is written anew."""
    mark = "## Reading"
    if path.exists() and mark in path.read_text():
        return mark + path.read_text().split(mark)[1].split("\n## ")[0].rstrip()
    return mark + "\n\nNot written yet."


def chosen_rows(path, limit, wanted=()):
    """All rows of the kinds that are wanted (none: all), or `limit` of each kind, spread evenly over the file."""
    kinds = {}
    for line in pathlib.Path(path).read_text().splitlines():
        row = json.loads(line)
        if not wanted or row["kind"] in wanted:
            kinds.setdefault(row["kind"], []).append(row)
    chosen = []
    for rows in kinds.values():
        count = min(limit, len(rows)) if limit else len(rows)
        chosen += [rows[i * len(rows) // count] for i in range(count)]
    return chosen
