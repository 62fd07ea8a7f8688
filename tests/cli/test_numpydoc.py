import pytest

from sdlgm.cli._numpydoc import Entry, parse_parameters

DOCSTRING = """Fit a line.

    Parameters
    ----------
    slope : float, default=1.0
        Rise of the line, e.g. 1.5 for a steep one. See
        the guide.

        More in a second paragraph.
    low, high : int
        Limits
        of x.
    kind : {"a", "b"}, default="a"
    names : list of str
        One of:

        - ``"x"``: first.

    Attributes
    ----------
    slope_ : float
        The fitted slope.

    """


def test__parse_parameters__section__has_an_entry_for_each_name():
    entries = parse_parameters(DOCSTRING)
    assert list(entries) == ["slope", "low", "high", "kind", "names"]
    assert entries["slope"].type == "float, default=1.0"
    assert entries["low"] == entries["high"] == Entry("int", "Limits\nof x.")
    assert entries["kind"] == Entry('{"a", "b"}, default="a"', "")
    assert entries["slope"].description.endswith("guide.\n\nMore in a second paragraph.")


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("One sentence.", "One sentence."),
        ("No period", "No period"),
        ("", ""),
        ("First one. Second one.", "First one."),
        ("A value,\ne.g. 1.5, or i.e. this. ``None`` is\nanother.", "A value, e.g. 1.5, or i.e. this."),
        ("A paragraph\n\nAnother one.", "A paragraph"),
        ('Is it "x"? "y" is not.', 'Is it "x"?'),
    ],
)
def test__summary__description__is_its_first_sentence(description, summary):
    assert Entry("int", description).summary == summary


@pytest.mark.parametrize("docstring", ["", "Text only.", "Text.\n\n    Returns\n    -------\n    int\n"])
def test__parse_parameters__no_section__is_empty(docstring):
    assert parse_parameters(docstring) == {}


def test__parse_parameters__section_at_the_end__is_complete():
    entries = parse_parameters("Text.\n\n    Parameters\n    ----------\n    a : int\n        First.\n    b : int\n")
    assert entries == {"a": Entry("int", "First."), "b": Entry("int", "")}
