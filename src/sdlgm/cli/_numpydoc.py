"""Parse the Parameters section of a numpydoc docstring.

scikit-learn vendors a complete parser, but importing it imports scikit-learn, which takes seconds.
"""

import inspect
import re
from dataclasses import dataclass
from itertools import pairwise

# The end of a sentence. What follows starts like a sentence, so that "i.e. this" and "1.5" do not end one.
_SENTENCE_END = re.compile(r"""[.!?](?=\s+[A-Z`"'(]|$)""")


@dataclass(frozen=True)
class Entry:
    """The entry of one parameter."""

    type: str
    """The text after the colon, such as ``int, default=200``."""
    description: str
    """The indented text, without its indentation."""

    @property
    def summary(self) -> str:
        """The first sentence of the description, on one line."""
        paragraph = " ".join(self.description.split("\n\n", maxsplit=1)[0].split())
        end = _SENTENCE_END.search(paragraph)
        return paragraph[: end.end()] if end else paragraph


def parse_parameters(docstring: str) -> dict[str, Entry]:
    """Return the entries of the Parameters section by the name of the parameter.

    An entry of several parameters, such as ``alpha, beta : float``, is returned for each of them. The result is empty
    if the docstring has no such section.
    """
    entries: dict[str, Entry] = {}
    lines = _section(inspect.cleandoc(docstring).splitlines(), "Parameters")
    starts = [number for number, line in enumerate(lines) if line and not line[0].isspace()]
    for start, end in pairwise([*starts, len(lines)]):
        names, _, kind = lines[start].partition(" : ")
        description = inspect.cleandoc("\n".join(["", *lines[start + 1 : end]]))
        entries |= {name.strip(): Entry(kind.strip(), description) for name in names.split(",")}
    return entries


def _section(lines: list[str], title: str) -> list[str]:
    """Return the lines of a section: those between its underlined title and the next one."""
    titles = [number for number, line in enumerate(lines[1:]) if re.fullmatch(r"-{3,}", line) and lines[number]]
    for start, end in pairwise([*titles, len(lines)]):
        if lines[start] == title:
            return lines[start + 2 : end]
    return []
