"""ARFF files and the named data sets in this format; downloads use a server in this process."""

import gzip
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdlgm.data import fetch, load_data, load_mulan, named, open_batches
from sdlgm.errors import DataError, DownloadError

XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="Swainson's Thrush"></label>
<label name="wren"><label name="Pacific wren"/></label>
</labels>
"""
# Labels first, last and in between, in another order than in the XML. A value that a sparse row leaves out is the
# first declared one, which is 1 for {1,0}.
HEADER = r"""% a comment
@RELATION 'made up'

@attribute 'Pacific wren' {FALSE,TRUE}
@attribute	volume	integer
@attribute 'Swainson\'s Thrush' {1, 0}
@attribute "loud" {1,0}
@attribute place{b,'a, or "c"', d}
@attribute wren numeric
@attribute pitch real
% another
@data
"""
DENSE = r"""TRUE,1.5,0,0,'a, or "c"',0,-2
FALSE , 0 , 1 , 1 , b , 1 , 3e2
FALSE,?,1,?,?,0,0

FALSE,0,1,1,b,0,0
"""
SPARSE = r"""{0 TRUE, 1 1.5, 2 0, 3 0, 4 'a, or "c"', 6 -2}
{5 1,6 3e2}
% in between
{ 1 ?, 3 ?, 4 ? }
{}
"""
FEATURES = ("volume", "loud", "place=b", 'place=a, or "c"', "place=d", "pitch")
LABELS = ("Swainson's Thrush", "wren", "Pacific wren")
X = np.array(
    [[1.5, 0, 0, 1, 0, -2], [0, 1, 1, 0, 0, 300], [np.nan, np.nan, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]], dtype=np.float64
)
Y = np.array([[0, 0, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]])


def write(folder: Path, text: str, xml: str | bytes | None = XML, name: str = "made.arff") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    if xml is not None:
        (folder / "made.xml").write_bytes(xml if isinstance(xml, bytes) else xml.encode())
    return folder / name


def small(kind: str = "numeric", row: str = "1,0", label: str = "{0,1}") -> str:
    return f"@relation r\n@attribute a {kind}\n@attribute wren {label}\n@data\n{row}\n"


SMALL_XML = "<labels><label name='wren'/></labels>"


@pytest.mark.parametrize("rows", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test__load_mulan__every_trap__is_read(tmp_path, rows, start):
    dataset = load_mulan(write(tmp_path, start + HEADER + rows))
    assert dataset.name == "made.arff"
    assert dataset.feature_names == FEATURES
    assert dataset.label_names == LABELS
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.Y, Y)
    assert dataset.X.dtype == np.float64
    assert np.issubdtype(dataset.Y.dtype, np.integer)
    assert dataset.table.column_names == list(FEATURES)


def test__load_mulan__windows_line_ends__are_read(tmp_path):
    path = write(tmp_path, "")
    path.write_bytes((HEADER + DENSE).replace("\n", "\r\n").encode())
    np.testing.assert_array_equal(load_mulan(path).X, X)


@pytest.mark.parametrize("name", ["made.arff", "made-train.arff", "made-test.arff", "made.ARFF"])
def test__load_mulan__either_part__finds_the_labels(tmp_path, name):
    assert load_mulan(str(write(tmp_path, HEADER + DENSE, name=name))).label_names == LABELS


def test__load_mulan__train_and_test__agree_on_columns(tmp_path):
    """A value that occurs in one file only has a column in both."""
    one = load_mulan(write(tmp_path, small("{x,y,z}", "y,0"), SMALL_XML, "made-train.arff"))
    other = load_mulan(write(tmp_path, small("{x,y,z}", "z,1"), SMALL_XML, "made-test.arff"))
    assert one.feature_names == other.feature_names == ("a=x", "a=y", "a=z")
    np.testing.assert_array_equal(np.vstack([one.X, other.X]), [[0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("label", "values"), [("{false,true}", "true"), ("{Yes,No}", "Yes"), ("numeric", "1.0"), ("{1}", "1")]
)
def test__load_mulan__labels_in_other_words__are_understood(tmp_path, label, values):
    assert load_mulan(write(tmp_path, small(row=f"1,{values}", label=label), SMALL_XML)).Y.tolist() == [[1]]


def test__load_mulan__long_nominal_list__takes_no_time(tmp_path):
    values = ["'" + "a," * 40 + "b c'", *map(str, range(500))]
    dataset = load_mulan(write(tmp_path, small("{" + ",".join(values) + "}", "7,0"), SMALL_XML))
    assert dataset.X.shape == (1, 501)
    assert dataset.X[0, 8] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no @data"),
        ("PK\x03\x04", "line 1: .* not part of the header"),
        (small().replace("@data\n1,0\n", ""), "cut short"),
        ("@relation r\n@data\n1\n", "has no attributes"),
        (small(row=""), "has no rows"),
        (small(row="1"), "line 5: another number of values"),
        (small(row="1,0,1"), "line 5: another number of values"),
        (small(row="{7 1}"), "line 5: another number of values"),
        (small(row="{a 1}"), "line 5: not a row of ARFF"),
        (small(row="1,0\n{0 1}"), "line 6: dense and sparse rows are mixed"),
        (small(row="{0 1}\n1,0"), "line 6: dense and sparse rows are mixed"),
        (small(row="50%,0"), "line 5: attribute 'a' cannot be '50%'"),
        (small("{x,y}", "z,0"), "line 5: attribute 'a' cannot be 'z'"),
        (small("{x,y}", "'\\q',0"), "line 5: cannot be read as a row"),
        (small("string", "x,0"), "line 2: attribute 'a' is of the type string"),
        (small('date "yyyy"', "x,0"), "line 2: attribute 'a' is of the type date"),
        (small("{x,y", "x,0"), "line 2: attribute 'a' is of the type {x,y"),
        (small("{}", "x,0"), "line 2: .* cannot be read as names"),
        (small("{x,'y}", "x,0"), "line 2: .* cannot be read as names"),
        (small("{x,x}", "x,0"), "line 2: a name is empty or given twice"),
        (small("{x,?}", "x,0"), "line 2: a name is empty or given twice"),
        (small("").replace("a \n", "a\n"), "line 2: .* lacks a name or a type"),
        (small().replace("a numeric", "'a',b' numeric"), "line 2: .* lacks a name or a type"),
        (small().replace("wren", "a"), "more than one attribute is called 'a'"),
        (small("{x,y}\n@attribute a=x numeric", "x,1,0"), "more than one feature is called 'a=x'"),
        (small().replace("wren", "tit"), "no attribute for 1 of 1 labels, such as 'wren'"),
        (small().replace("@attribute a numeric\n", ""), "no attributes but its labels"),
        (small(row="1,?"), "label 'wren' has 1 missing values"),
        (small(row="1,2", label="numeric"), "label 'wren' has the value 2"),
        (small(row="1,2", label="{1,2}"), "label 'wren' has the values 1, 2"),
        (small(row="1,0", label="{0,false}"), "label 'wren' has the values 0, false"),
    ],
)
def test__load_mulan__bad_arff__is_named(tmp_path, text, message):
    with pytest.raises(DataError, match=rf"made\.arff: .*{message}"):
        load_mulan(write(tmp_path, text, SMALL_XML))


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("", "cannot be read as XML"),
        ("<labels><label name='wren'>", "cannot be read as XML"),
        ("<?xml version='1.0' encoding='nonsense'?><labels/>", "cannot be read as XML"),
        ("<labels/>", "names no labels"),
        ("<html><label name='wren'/></html>", "starts with <html>"),
        ("<labels><label/></labels>", "a label has no name"),
        ("<!DOCTYPE labels [<!ENTITY a 'wren'>]><labels><label name='&a;'/></labels>", "has a DTD"),
        ("<!DOCTYPE labels SYSTEM 'file:///etc/hostname'><labels><label name='wren'/></labels>", "has a DTD"),
        ("<!DOCTYPE labels><labels><label name='wren'/></labels>".encode("utf-16"), "has a DTD"),
    ],
)
def test__load_mulan__bad_xml__is_named(tmp_path, xml, message):
    with pytest.raises(DataError, match=rf"made\.xml: .*{message}"):
        load_mulan(write(tmp_path, small(), xml))


def test__load_mulan__label_named_twice__is_refused(tmp_path):
    with pytest.raises(DataError, match="more than one label is called 'wren'"):
        load_mulan(write(tmp_path, small(), SMALL_XML.replace("<label ", "<label name='wren'/><label ")))


def test__load_mulan__missing_files_or_other_text__are_named(tmp_path):
    with pytest.raises(DataError, match=r"labels is missing; expected .*made-train\.xml or .*made\.xml"):
        load_mulan(write(tmp_path, small(), None, "made-train.arff"))
    with pytest.raises(DataError, match=r"no\.arff: there is no such file"):
        load_mulan(tmp_path / "no.arff")
    path = write(tmp_path, "", SMALL_XML)
    path.write_bytes(small("{é,x}", "x,0").encode("latin-1"))
    with pytest.raises(DataError, match=r"made\.arff: is not text in UTF-8"):
        load_mulan(path)


def test__load_mulan__xml_too_large__is_refused(tmp_path):
    path = write(tmp_path, small(), SMALL_XML)
    path.with_suffix(".xml").write_bytes(gzip.compress(b"<labels>" + b" " * 2**24))
    with pytest.raises(DataError, match=r"made\.xml: is larger than 16777216 bytes"):
        load_mulan(path)


def test__load_mulan__nested_too_deeply__is_refused(tmp_path):
    xml = "<labels>" + "<label name='a'>" * 200 + "</label>" * 200 + "</labels>"
    with pytest.raises(DataError, match=r"made\.xml: its labels are nested more than 100 deep"):
        load_mulan(write(tmp_path, small(), xml))


@pytest.mark.parametrize(
    ("kind", "rows", "limit"),
    [
        ("numeric", "{0 1}\n" * 1_000, "30K"),  # rows
        ("{" + ",".join("abcdefghij") + "}", "{0 b}\n" * 500, "40K"),  # columns of a nominal attribute
        ("{" + ",".join(f"v{i}" for i in range(500)) + "}", "{0 v1}\n", "60K"),  # names
        ("numeric", "{0 0." + "1" * 2_000 + "}\n", "40K"),  # a line
    ],
)
def test__load_mulan__too_much_memory__is_refused(tmp_path, monkeypatch, kind, rows, limit):
    path = write(tmp_path, small(kind, row=rows), SMALL_XML)
    path.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setenv("SDLGM_MAX_MEMORY", limit)
    with pytest.raises(DataError, match=r"made\.arff: takes \d+ bytes of memory to read"):
        load_mulan(path)
    monkeypatch.delenv("SDLGM_MAX_MEMORY")
    assert load_mulan(path).X.size


@given(position=st.floats(0, 1), byte=st.integers(0, 255), sparse=st.booleans())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__load_mulan__any_byte_changed__is_read_or_a_named_error(tmp_path, position, byte, sparse):
    path = write(tmp_path, HEADER + (SPARSE if sparse else DENSE))
    content = bytearray(path.read_bytes())
    content[int(position * (len(content) - 1))] = byte
    path.write_bytes(bytes(content))
    try:
        load_mulan(path)
    except DataError:
        pass


def test__load_data__arff__has_the_observations_only(tmp_path):
    path = str(write(tmp_path, HEADER + SPARSE))
    dataset = load_data(path)
    np.testing.assert_array_equal(dataset.X, X)
    assert dataset.feature_names == FEATURES
    assert dataset.labels is None
    assert [part.num_rows for part in open_batches(path, size=3)] == [3, 1]


def test__load_data__arff_without_labels__has_every_attribute(tmp_path):
    dataset = load_data(str(write(tmp_path, small("{red,green}", "green,0\nred,1"), None)))
    assert dataset.feature_names == ("a=red", "a=green", "wren")
    np.testing.assert_array_equal(dataset.X, [[0, 1, 0], [1, 0, 1]])


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def published(tmp_path, monkeypatch) -> Iterator[Path]:
    """Serve a folder with files for every data set in place of the published ones."""
    folder = tmp_path / "published"
    folder.mkdir()
    for file in ("birds-train.arff", "emotions-train.arff"):
        write(folder, HEADER + DENSE, name=file)
    for file in ("birds-test.arff", "emotions-test.arff", "cal500.arff"):
        write(folder, HEADER + "{0 TRUE}\n", name=file)
    for name in ("birds", "emotions", "cal500"):
        shutil.copy(folder / "made.xml", folder / f"{name}.xml")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.delenv("SDLGM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name in ("birds", "emotions", "cal500"):
        files = {file: sha256(folder / file) for file in named.DATASETS[name].files}
        mirrors = (f"http://127.0.0.1:{server.server_port}/",)
        monkeypatch.setitem(named.DATASETS, name, replace(named.DATASETS[name], files=files, mirrors=mirrors))
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def test__load_mulan__name__is_downloaded_and_kept(published, tmp_path):
    train, test, whole = (load_mulan(name) for name in ("birds:train", "birds:test", "birds"))
    assert (train.name, test.name, whole.name) == ("birds:train", "birds:test", "birds")
    np.testing.assert_array_equal(train.Y, Y)
    assert test.Y.tolist() == [[1, 0, 1]]
    np.testing.assert_array_equal(whole.X, np.vstack([train.X, test.X]))
    np.testing.assert_array_equal(whole.Y, np.vstack([train.Y, test.Y]))
    shutil.rmtree(published)
    assert load_data("birds").X.shape == (5, 6)
    assert load_data("birds").feature_names == FEATURES
    assert [path.parent.name for path in fetch("birds")] == ["mulan"] * 3
    (tmp_path / "cache" / "sdlgm" / "mulan" / "birds.xml").write_text("rot")
    with pytest.raises(DataError, match="delete it and fetch it again"):
        load_mulan("birds:test")


def test__load_mulan__cal500__has_one_part_and_two_spellings(published, tmp_path, monkeypatch):
    assert load_mulan("cal500").Y.shape == (1, 3)
    for split in ("train", "test"):
        with pytest.raises(DataError, match=f"cal500:{split}: there is no official split"):
            load_mulan(f"cal500:{split}")
    monkeypatch.setenv("SDLGM_DATA", str(tmp_path / "own"))
    (tmp_path / "own" / "mulan").mkdir(parents=True)
    for ending in ("arff", "xml"):
        shutil.copy(published / f"cal500.{ending}", tmp_path / "own" / "mulan" / f"CAL500.{ending}")
    assert [path.name for path in fetch("cal500")] == ["CAL500.arff", "CAL500.xml"]
    assert load_mulan("cal500").Y.shape == (1, 3)


def test__load_mulan__no_mirror_has_it__says_what_to_do(published):
    (published / "emotions.xml").unlink()
    with pytest.raises(DownloadError, match=r"404.*set SDLGM_DATA to a folder that has mulan/emotions\.xml"):
        load_mulan("emotions")


def test__load_mulan__other_names__are_refused():
    with pytest.raises(DataError, match="digits: is not a multi-label data set"):
        load_mulan("digits")
    with pytest.raises(DataError, match="named data sets are digits, mnist, birds, emotions, cal500"):
        load_mulan("nonsense")
    with pytest.raises(DataError, match="the splits are birds:train and birds:test"):
        load_mulan("birds:half")


@pytest.mark.skipif(not os.environ.get("SDLGM_DATA"), reason="SDLGM_DATA does not name a folder with the Mulan files")
@pytest.mark.parametrize(
    ("name", "rows", "columns", "labels", "cardinality", "without"),
    [
        # 258 numbers, {0,1}, and 12 places
        ("birds", 645, 258 + 1 + 12, 19, 1.014, 294),
        ("birds:train", 322, 271, 19, 1.059, 143),
        ("birds:test", 323, 271, 19, 0.969, 151),
        ("emotions", 593, 72, 6, 1.869, 0),
        ("emotions:train", 391, 72, 6, 1.813, 0),
        ("emotions:test", 202, 72, 6, 1.975, 0),
        ("cal500", 502, 68, 174, 26.044, 0),
    ],
)
def test__load_mulan__real_data__have_the_published_counts(name, rows, columns, labels, cardinality, without):
    dataset = load_mulan(name)
    assert dataset.X.shape == (rows, columns)
    assert len(dataset.feature_names) == columns
    assert dataset.Y.shape == (rows, labels)
    assert len(dataset.label_names) == labels
    assert dataset.Y.sum(axis=1).mean() == pytest.approx(cardinality, abs=6e-4)
    assert (dataset.Y.sum(axis=1) == 0).sum() == without
    assert np.isfinite(dataset.X).all()
    if name == "birds":
        assert "Swainson's Thrush" in dataset.label_names
        assert (dataset.X[:, dataset.feature_names.index("hasSegments")] == 0).sum() == 337
        assert (dataset.X[:, -12:].sum(axis=1) == 1).all()


@pytest.mark.parametrize(("value", "problem"), [("inf", "infinity"), ("1e999", "infinity"), ("1_0", "cannot be '1_0'")])
def test__arff__number_that_is_none__is_refused(tmp_path, value, problem):
    path = tmp_path / "a.arff"
    path.write_text(f"@relation r\n@attribute a numeric\n@data\n1\n{value}\n")
    with pytest.raises(DataError, match=problem):
        load_data(str(path))
