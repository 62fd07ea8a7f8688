"""Windows of time series, against a plain implementation, and the way back."""

import itertools
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from sdlgm.data import windows
from sdlgm.data.series import Timeline, join_windows
from sdlgm.errors import DataError

quiet = pytest.mark.filterwarnings("ignore:.*(not in the order|gap)")


def plain_windows(times, groups, length, stride, max_gap) -> list[list[int]]:
    """Return the rows of each window, found row by row."""
    names = list(dict.fromkeys(groups))
    series = [
        sorted((row for row, group in enumerate(groups) if group == name), key=times.__getitem__) for name in names
    ]
    steps = [times[b] - times[a] for rows in series for a, b in itertools.pairwise(rows)]
    positive = [step for step in steps if step > 0]
    longest = np.inf if max_gap is None or not positive else max_gap * float(np.median(positive))
    found = []
    for rows in series:
        pieces = [[rows[0]]]
        for a, b in itertools.pairwise(rows):
            if times[b] - times[a] > longest:
                pieces.append([])
            pieces[-1].append(b)
        for piece in pieces:
            found += [piece[start : start + length] for start in range(0, len(piece) - length + 1, stride)]
    return found


@quiet
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("uvw")), min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([None, 1.0, 2.0, 5.0]),
)
@settings(max_examples=60, deadline=None)
def test__windows__of_any_series__are_those_of_the_plain_implementation(rows, length, stride, max_gap):
    times, groups = [time for time, _ in rows], [group for _, group in rows]
    values = np.arange(len(rows), dtype=float)
    table = pd.DataFrame(
        {"t": times, "g": groups, "x": values, "y": values % 3, "k": [f"k{v % 2:.0f}" for v in values]}
    )
    expected = plain_windows(times, groups, length, stride, max_gap)
    options = {"length": length, "stride": stride, "max_gap": max_gap, "time_column": "t", "group": "g"}
    if not expected:
        with pytest.raises(DataError, match="there is no window"):
            windows(table, **options)
        return
    made = windows(table, **options)
    matrix = made.matrix
    assert matrix[:, :length].tolist() == expected
    assert matrix[:, length : 2 * length].tolist() == [[row % 3 for row in rows] for rows in expected]
    assert made.last_rows.tolist() == [rows[-1] for rows in expected]
    np.testing.assert_array_equal(np.concatenate([part.matrix for part in made.batches(3)]), matrix)
    # The way back has each row that is in a window once, by series and time.
    covered = list(dict.fromkeys(row for rows in expected for row in rows))
    covered.sort(key=lambda row: (list(dict.fromkeys(groups)).index(groups[row]), times[row], row))
    back = table.loc[covered, ["g", "t", "x", "y", "k"]].reset_index(drop=True)
    assert_frame_equal(made.inverse(matrix), back, check_dtype=False)
    assert_frame_equal(made.inverse(made.to_table()), back, check_dtype=False)
    assert made.placement.n_unused == len(rows) - len(covered)


def test__windows__names_and_shape__say_column_and_lag():
    made = windows(pa.table({"a": [1, 2, 3], "b": [True, None, False]}), length=2)
    assert made.feature_names == ("a[t-1]", "a[t]", "b[t-1]", "b[t]")
    assert made.shape == (2, 4)
    assert made.schema.kinds == ("number", "number", "boolean", "boolean")
    np.testing.assert_array_equal(made.matrix, [[1, 2, 1, np.nan], [2, 3, np.nan, 0]])
    assert made.to_table().column_names == list(made.feature_names)
    assert made.inverse(made.matrix).to_pydict() == {"a": [1, 2, 3], "b": [True, None, False]}


def test__inverse__overlapping_windows__mean_and_most_frequent():
    made = windows(pa.table({"a": [0.0] * 4, "k": ["u", "v", "w", "u"]}), length=3)
    changed = np.array([[1, 2, 3, 0, 1, 2], [5, 6, 7, 1, 2, np.nan]])
    # Rows 1 and 2 are in both windows. Of two levels that are equally frequent, the first one is taken.
    assert made.inverse(changed).to_pydict() == {"a": [1, 3.5, 4.5, 7], "k": ["u", "v", "w", None]}
    with pytest.raises(ValueError, match=r"shape \(1, 6\); these have the shape \(2, 6\)"):
        made.inverse(changed[:1])


def test__join_windows__many_estimates_of_a_category__are_counted():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 4, (30, 7)).astype(float)
    levels[rng.random(levels.shape) < 0.3] = np.nan
    starts = np.arange(30)
    joined = join_windows(levels, starts, 36, np.array([4]))[:, 0]
    for row in range(36):
        found = [levels[w, row - w] for w in range(30) if 0 <= row - w < 7 and not np.isnan(levels[w, row - w])]
        counts = np.bincount(np.array(found, int), minlength=4) if found else np.zeros(4)
        assert (np.isnan(joined[row]) and not found) or joined[row] == counts.argmax()


SECONDS = [0, 1, 1, 2, 3]
STARTED = datetime(2019, 11, 23, 12, 27, 34)


@pytest.mark.parametrize(
    "times",
    [
        SECONDS,
        [str(second) for second in SECONDS],
        [0.25 * second for second in SECONDS],
        pd.Timestamp(STARTED) + pd.to_timedelta(SECONDS, "s"),
        (pd.Timestamp(STARTED, tz="Europe/Dublin") + pd.to_timedelta(SECONDS, "s")),
        [f"2019.11.23_12.27.{34 + second}" for second in SECONDS],
        [f"2019-11-23T12:27:{34 + second}Z" for second in SECONDS],
        [f"2019/11/23 12:27:{34 + second},5" for second in SECONDS],
        [f"2019-11-23 1{second}:00:00+0{second}:00" for second in [0, 0, 0, 0, 0]],
        [f"2019-11-2{second}" for second in SECONDS],
        [f"2019-11-23 12:{second}" for second in SECONDS],
        [date(2019, 11, 20 + second) for second in SECONDS],
        [STARTED.replace(second=second, tzinfo=UTC) for second in SECONDS],
    ],
)
def test__time_column__of_any_kind__orders_rows_and_keeps_ties_in_order(times):
    order = [3, 4, 0, 1, 2]
    table = pd.DataFrame({"t": times, "x": [0.0, 1, 2, 3, 4]})
    made = windows(table, length=5, time_column="t")
    assert made.matrix.tolist() == [[0, 1, 2, 3, 4]]
    if len(set(map(str, times))) > 1:
        with pytest.warns(UserWarning, match="1 row is not in the order of 't'"):
            shuffled = windows(table.iloc[order], length=5, time_column="t")
        assert shuffled.matrix.tolist() == [[0, 1, 2, 3, 4]]


def test__time_zones__are_taken_into_account():
    texts = ["2020-01-01 12:00:00+02:00", "2020-01-01 10:30:00Z", "2020-01-01 06:00:01-0500"]
    made = windows(pa.table({"t": texts, "x": [1, 2, 3]}), length=3, time_column="t", max_gap=None)
    expected = pd.to_datetime(texts, utc=True, format="ISO8601").tz_localize(None)
    assert list(made.inverse(made.matrix)["t"].to_pylist()) == list(expected)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2019-11-23", "-"], "time column 't' has 1 missing values, the first in row 1"),
        ([1, None], "1 missing values"),
        (pd.Series([pd.NaT, pd.Timestamp(0)]), "1 missing values, the first in row 0"),
        (["23/11/2019", "24/11/2019"], "'23/11/2019'; write times as 2019-11-23 12:27:34"),
        (["2019-13-23", "2019-11-24"], "'2019-13-23', which is no date"),
        (["2019-11-23", "1500-01-01"], "from 1678 to 2261"),
        (["2019-11-23" + " " * 100, "2019-11-24"], "has the value"),
        ([True, False], "holds bool"),
    ],
)
def test__time_column__that_has_no_times__is_named_with_the_remedy(times, message):
    with pytest.raises(DataError, match=message):
        windows(pd.DataFrame({"t": times, "x": [1, 2]}), length=1, time_column="t")


def test__gaps__are_said_and_not_spanned_unless_asked():
    table = pa.table({"t": [0, 10, 20, 90, 100], "x": [0.0, 1, 2, 3, 4]})
    with pytest.warns(UserWarning, match="1 gap in 't' longer than 5 median steps of 10, at most 70; no window"):
        assert windows(table, length=2, time_column="t").matrix.tolist() == [[0, 1], [1, 2], [3, 4]]
    assert len(windows(table, length=2, time_column="t", max_gap=None)) == 4
    assert len(windows(table, length=2, time_column="t", max_gap=7)) == 4
    with pytest.raises(DataError, match=r"no series has 4 rows without a gap.*--window.*--max-gap"):
        windows(table, length=4, time_column="t")


def test__gaps__of_new_data__are_found_by_the_step_of_the_fit():
    from sdlgm.data import encode_table

    schema = windows(pa.table({"t": [0, 10, 20], "x": [0.0, 1, 2]}), length=2, time_column="t").schema
    assert schema.window.step == 10
    slower = pa.table({"t": [0, 10, 110, 210, 310], "x": [0.0, 1, 2, 3, 4]})
    with pytest.warns(UserWarning, match="3 gaps"):
        assert len(encode_table(schema, slower)) == 1


@pytest.mark.parametrize(
    ("group", "message"),
    [(["a", "-"], r"'g' \(group\) has no value in row 1"), (pd.date_range("2020", periods=2), "give numbers")],
)
def test__group__without_a_name__is_refused(group, message):
    with pytest.raises(DataError, match=message):
        windows(pd.DataFrame({"g": group, "x": [1, 2]}), length=1, group="g")


@pytest.mark.parametrize("names", [["b", "a"], [2, 1], [1.5, 0.5], pd.Categorical(["b", "a"])])
def test__group__of_any_kind__comes_back(names):
    made = windows(pd.DataFrame({"g": names, "x": [1, 2]}), length=1, group="g")
    assert made.matrix.tolist() == [[1], [2]]  # by first appearance
    assert made.inverse(made.matrix)["g"].tolist() == list(names)


def test__array__is_in_the_order_of_time():
    X = np.arange(10.0).reshape(5, 2)
    made = windows(X, length=2, stride=3)
    np.testing.assert_array_equal(made.matrix, [[0, 2, 1, 3], [6, 8, 7, 9]])
    np.testing.assert_array_equal(made.inverse(made.matrix), X[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    "options",
    [{"length": 0}, {"length": 2.0}, {"length": True}, {"length": 2, "stride": 0}, {"length": 2, "max_gap": 0.5}],
)
def test__windows__impossible_lengths__are_refused(options):
    with pytest.raises(ValueError, match="it has to be"):
        windows(np.eye(3), **options)


INSTANTS = ["2026-01-01T00:30:00+01:00", "2025-12-31 23:31:00Z", "2026-01-01 05:02:00+0530", "2025-12-31T22:33:00-01"]
MINUTES = pd.date_range("2025-12-31T23:30", periods=4, freq="min", tz="UTC")


@pytest.mark.parametrize(
    "times",
    [
        INSTANTS,
        [pd.Timestamp(text) for text in INSTANTS],
        pd.Series(MINUTES).dt.tz_convert("Europe/Berlin"),
        pd.Series(MINUTES).astype(pd.ArrowDtype(pa.timestamp("us", "Asia/Kolkata"))),
        pa.array(MINUTES, pa.timestamp("ms", "America/New_York")),
    ],
)
def test__times__with_zones__are_instants_in_utc(times):
    loads = np.arange(4.0)
    if isinstance(times, pa.Array):
        table = pa.table({"when": times, "load": loads})
    else:
        table = pd.DataFrame({"when": pd.Series(times), "load": loads})
    made = windows(table, length=2, time_column="when")
    np.testing.assert_array_equal(made.origins.times.stored, MINUTES.tz_localize(None))


@pytest.mark.parametrize("kind", [str, pd.Timestamp])
def test__times__with_and_without_a_zone__are_refused(kind):
    times = [kind(text) for text in ("2026-01-01 00:00:00+01:00", "2026-01-01 00:01:00", "2026-01-01 00:02:00+01:00")]
    table = pd.DataFrame({"when": pd.Series(times, dtype=object), "load": np.arange(3.0)})
    with pytest.raises(DataError, match="'when' has times with a zone, such as '2026-01-01 00:00:00.01:00', and"):
        windows(table, length=2, time_column="when")


@pytest.mark.parametrize("text", ["2026-01-01 00:00:00+25:00", "2026-01-01 00:00+01:75", "2026-01-01-05"])
def test__times__offset_that_is_none__is_refused(text):
    table = pd.DataFrame({"when": [text] * 3, "load": np.arange(3.0)})
    with pytest.raises(DataError, match="the time column 'when' has the value '2026-01-01"):
        windows(table, length=2, time_column="when")


def test__hold_out__any_fraction__is_the_end_of_each_series():
    series = np.repeat([0, 1, 2], [10, 3, 1])
    times = np.concatenate([np.arange(10)[::-1], [5, 6, 7], [0]])
    kept, held_out = Timeline(times, times, series).hold_out(0.25)
    assert held_out.tolist() == [0, 1, 2, 12]
    assert kept.tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 11, 13]
