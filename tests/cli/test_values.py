import pytest
import typer

from sdlgm.cli._values import FORMS, choice_form, parser_of

THRESHOLD = [FORMS["float"], choice_form(("cv", "cv_per_label"))]
PATCH = [FORMS["int"], FORMS["tuple[int, int]"]]
HIDDEN = [FORMS["tuple[int, ...]"]]


@pytest.mark.parametrize(
    ("forms", "text", "value"),
    [
        (THRESHOLD, "0.4", 0.4),
        (THRESHOLD, "cv", "cv"),
        (PATCH, "8", 8),
        (PATCH, "8,4", (8, 4)),
        (HIDDEN, "512,384, 256", (512, 384, 256)),
        (HIDDEN, "64", (64,)),
        (HIDDEN, "", ()),
        ([FORMS["int"], FORMS["str"]], "many", "many"),
    ],
)
def test__parser__text_of_a_form__is_converted(forms, text, value):
    parsed = parser_of(forms)(text)
    assert parsed == value
    assert type(parsed) is type(value)


LIKELIHOOD = [FORMS["Mapping[int | str, str]"], choice_form(["auto", "poisson"])]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("poisson", "poisson"),
        ("a=poisson", {"a": "poisson"}),
        ("a=poisson, 3=magic", {"a": "poisson", "3": "magic"}),
        ("a=b=poisson", {"a=b": "poisson"}),
    ],
)
def test__parser__names_by_column__are_a_mapping(text, value):
    assert parser_of(LIKELIHOOD)(text) == value


@pytest.mark.parametrize("text", ["magic", "a=", "=poisson", "a=poisson,b", ""])
def test__parser__neither_a_name_nor_a_mapping__is_a_bad_parameter(text):
    with pytest.raises(typer.BadParameter, match="visits=poisson"):
        parser_of(LIKELIHOOD)(text)


@pytest.mark.parametrize(
    ("forms", "text", "message"),
    [
        (THRESHOLD, "high", "'high' is not a number or one of cv, cv_per_label"),
        (PATCH, "8,4,2", "a whole number or two whole numbers"),
        (HIDDEN, "a,b", "512,384,256"),
        (HIDDEN, "5,,5", "512,384,256"),
    ],
)
def test__parser__other_text__is_a_bad_parameter(forms, text, message):
    with pytest.raises(typer.BadParameter, match=message):
        parser_of(forms)(text)
