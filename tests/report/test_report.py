import base64
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.text import Text

import sdlgm
from sdlgm import SDLGM
from sdlgm.data import Dataset
from sdlgm.report import figures, write_report


@pytest.fixture
def pictures(digits) -> Dataset:
    return Dataset("digits", digits[:120], labels=np.arange(120) % 10, image_shape=(8, 8))


def test__report__pictures__is_one_whole_page(fitted, pictures, tmp_path):
    page = write_report(fitted, pictures, tmp_path / "report.html").read_text(encoding="utf-8")
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(images) == 7
    assert len(titles) == len(images) + 1
    for image in images:
        (tmp_path / "image.png").write_bytes(base64.b64decode(image))
        pixels = matplotlib.image.imread(tmp_path / "image.png")
        assert pixels[..., :3].std() > 0.01  # not an empty canvas
    assert not re.search(r'(src|href)="(?!data:)', page)  # nothing comes from elsewhere
    evaluation = fitted.evaluate(pictures.X, random_state=0)
    assert f"{evaluation.discrete:.2f} nats" in page
    assert f"largest {evaluation.n_active_max}, budget 5" in page


def test__report__continuous_columns_without_labels__is_written_too(fitted_gaussian, measurements, tmp_path):
    data = Dataset("measurements", measurements)
    page = write_report(fitted_gaussian, data, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 6
    assert "Gaussian likelihood" in page


def test__report__more_rows_than_it_takes__says_so_and_is_that_of_the_rows_it_took(fitted, pictures, tmp_path):
    every_third = np.linspace(0, 119, 40).astype(int)
    some = Dataset("digits", pictures.X[every_third], labels=pictures.labels[every_third], image_shape=(8, 8))
    pages = [
        write_report(fitted, data, tmp_path / "report.html", max_rows=most).read_text(encoding="utf-8")
        for data, most in ((pictures, 40), (some, 40), (some, None))
    ]
    assert "40 observations (evenly spaced among\n120) with" in pages[0]
    assert pages[0].replace(" (evenly spaced among\n120)", "") == pages[1] == pages[2]
    assert "t-SNE embedding of 40 sampled codes" in pages[0]


def test__code_map__of_many_rows__takes_some_of_them(fitted, pictures):
    drawn = fitted.sample_codes(pictures.X, random_state=0)
    (points,) = [
        one for one in figures.code_map(pictures, drawn, max_rows=50).axes[0].collections if len(one.get_offsets()) > 1
    ]
    assert len(points.get_offsets()) == 50
    assert np.isfinite(points.get_offsets()).all()


def test__report__name_with_markup__is_escaped(fitted, pictures, tmp_path):
    data = Dataset("<script>alert(1)</script>", pictures.X, image_shape=(8, 8))
    page = write_report(fitted, data, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page


def test__report__collapsed_model_or_few_rows__says_so(pictures, small, tmp_path):
    noise = np.random.default_rng(0).integers(0, 2, (60, 9)).astype(float)
    collapsed = SDLGM(**{**small, "max_active": 1}, gate_prior=1e-6, random_state=0).fit(noise)
    write_report(collapsed, Dataset("noise", noise), tmp_path / "collapsed.html")
    notice = figures.code_map(Dataset("noise", noise), collapsed.transform(noise))
    assert any("fewer than 5 different codes" in text.get_text() for text in notice.findobj(Text))
    single = SDLGM(**{**small, "n_components": 1, "max_active": 1}, random_state=0).fit(noise)
    write_report(single, Dataset("noise", noise), tmp_path / "single.html")
    write_report(single, Dataset("two rows", noise[:2]), tmp_path / "few.html")


def test__report__settings_changed_after_the_fit__do_not_matter(pictures, digits, small, tmp_path):
    model = SDLGM(**small, random_state=0).fit(digits).set_params(max_active=1)
    assert "budget 5" in write_report(model, pictures, tmp_path / "report.html").read_text(encoding="utf-8")


def test__sparsity__bars__are_shares_of_observations(fitted, pictures):
    codes = fitted.transform(pictures.X)
    figure = figures.sparsity(fitted, pictures, codes, codes, 5)
    left = figure.axes[0]
    heights = [bar.get_height() for container in left.containers for bar in container]
    assert sum(heights) == pytest.approx(2.0)
    line = left.lines[0].get_ydata()
    assert np.sum(line) == pytest.approx(1.0)


def test__feature_atlas__effects__are_what_the_feature_changes(fitted, pictures):
    codes = fitted.sample_codes(pictures.X, random_state=0)
    row = int(np.argmax(np.diff(codes.indptr) > 1))
    feature = int(codes[[row]].indices[0])
    without = codes[[row]].toarray()
    without[0, feature] = 0
    expected = fitted.inverse_transform(codes[[row]]) - fitted.inverse_transform(without)
    np.testing.assert_allclose(figures._feature_effect(fitted, codes[[row]], feature), expected)


def test__figures__codes_that_are_all_empty__still_draw(fitted, pictures):
    empty = sp.csr_matrix((120, 16), dtype=np.int32)
    figures.reconstructions(fitted, pictures, empty)
    figures.reading_a_code(fitted, pictures, empty)
    figures.feature_atlas(fitted, pictures, empty)
    figures.usage(empty, empty)


def test__import__report__leaves_heavy_packages_alone():
    code = (
        "import sys, sdlgm.report; print(*sorted({'jinja2', 'matplotlib', 'scipy.stats', 'torch'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test__report__missing_dependency__names_the_command_that_installs_it(missing, tmp_path):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from sdlgm import MissingDependencyError
from sdlgm.report import figures, write_report
import scipy.sparse as sp
codes = sp.csr_matrix((2, 3))
calls = [lambda: write_report(None, None, {str(tmp_path / "report.html")!r})]
calls += [lambda: figures.usage(codes, codes)] if {missing!r} == "matplotlib" else []
for call in calls:
    try:
        call()
    except MissingDependencyError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    messages = result.stdout.splitlines()
    assert messages
    assert set(messages) == {f"{missing} is not installed; install it with: pip install 'sdlgm[report]'"}
    assert not list(tmp_path.iterdir())


def test__training_curves__features_in_use__are_drawn_unless_the_file_is_older(fitted):
    drawn = figures.training_curves(fitted, 5).axes[3].lines[0].get_ydata()
    assert list(drawn) == [record.features_used for record in fitted.history_]
    early = sdlgm.load(Path(__file__).parents[1] / "golden" / "bernoulli-1.sdlgm")
    assert len(figures.training_curves(early, 3).axes) == 3


def test__report__problem_of_fit_or_data__is_in_a_box_at_the_top(fitted, digits, tmp_path, monkeypatch):
    monkeypatch.setattr("sdlgm.report.code_report._sections", lambda *_: [])
    pages = {}
    for name, problem in (("bad", "the codes carry <nothing>"), ("good", None)):
        monkeypatch.setattr(fitted, "problem_", problem)
        path = write_report(fitted, Dataset("digits", digits[:60]), tmp_path / f"{name}.html")
        pages[name] = path.read_text(encoding="utf-8")
    assert 'class="problem"' not in pages["good"]
    assert "The fit: the codes carry &lt;nothing&gt;." in pages["bad"]
    assert pages["bad"].index('class="problem"') < pages["bad"].index('class="numbers"')
