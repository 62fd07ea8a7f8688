"""Named data sets; downloads use a server in this process."""

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from sdlgm.data import fetch, load_data, named
from sdlgm.errors import DataError, DownloadError

CONTENT = {f"{name}.gz": gzip.compress(name.encode()) for name in named.MNIST_FILES}


class Server(BaseHTTPRequestHandler):
    files: dict[str, bytes] = {}
    failures = 0
    requests = 0

    def do_GET(self):
        type(self).requests += 1
        name = self.path.rsplit("/", 1)[-1]
        if type(self).failures > 0:
            type(self).failures -= 1
            self.send_error(503)
        elif name in self.files:
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.files[name])))
            self.end_headers()
            self.wfile.write(self.files[name])
        else:
            self.send_error(404)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def mirror(monkeypatch, tmp_path) -> Iterator[str]:
    monkeypatch.delenv("SDLGM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    checksums = {name: hashlib.sha256(name.encode()).hexdigest() for name in named.MNIST_FILES}
    Server.files, Server.failures, Server.requests = dict(CONTENT), 0, 0
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/mnist/"
    monkeypatch.setitem(named.DATASETS, "mnist", replace(named.DATASETS["mnist"], files=checksums, mirrors=(url,)))
    yield url
    server.shutdown()
    server.server_close()
    thread.join()


def test__fetch__empty_cache__downloads_once(mirror):
    paths = fetch("mnist", mirrors=[mirror])
    assert [path.name for path in paths] == list(CONTENT)
    assert Server.requests == 4
    fetch("mnist", mirrors=[mirror])
    assert Server.requests == 4


def test__fetch__server_that_recovers__is_tried_again(mirror):
    Server.failures = 2
    assert len(fetch("mnist", mirrors=[mirror])) == 4


def test__fetch__first_mirror_down__takes_the_second(mirror):
    assert len(fetch("mnist", mirrors=["http://127.0.0.1:9/", mirror], retries=1)) == 4


def test__fetch__all_mirrors_down__says_what_to_do(mirror):
    Server.failures = 10**6
    with pytest.raises(DownloadError, match="set SDLGM_DATA") as caught:
        fetch("mnist", mirrors=[mirror], retries=1)
    assert "503" in str(caught.value)


def test__fetch__wrong_content__is_not_kept(mirror, tmp_path):
    Server.files["train-images-idx3-ubyte.gz"] = gzip.compress(b"something else")
    with pytest.raises(DownloadError, match="SHA-256"):
        fetch("mnist", mirrors=[mirror])
    assert not list(tmp_path.rglob("train-images*"))


def test__fetch__damaged_cache__is_named(mirror):
    paths = fetch("mnist", mirrors=[mirror])
    paths[0].write_bytes(gzip.compress(b"rot"))
    with pytest.raises(DataError, match="delete it and fetch it again"):
        fetch("mnist", mirrors=[mirror])


def test__fetch__embedded_or_unknown__needs_no_network():
    assert fetch("digits") == []
    with pytest.raises(DataError, match="known are digits, mnist"):
        fetch("nonsense")


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def test__load__mnist_that_is_not_here__is_downloaded(mirror, monkeypatch):
    images, labels = np.arange(2 * 784, dtype=np.uint8).reshape(2, 28, 28), np.array([3, 1], dtype=np.uint8)
    contents = {"t10k-images-idx3-ubyte": idx(images), "t10k-labels-idx1-ubyte": idx(labels)}
    for name, content in contents.items():
        Server.files[f"{name}.gz"] = gzip.compress(content)
        monkeypatch.setitem(named.DATASETS["mnist"].files, name, hashlib.sha256(content).hexdigest())
    dataset = load_data("mnist:test")
    np.testing.assert_allclose(dataset.X, images.reshape(2, 784) / 255, rtol=1e-6)
    assert list(dataset.labels) == [3, 1]


def test__load__mnist_that_cannot_be_had__says_what_to_do(mirror):
    Server.failures = 10**6
    with pytest.raises(DownloadError, match="set SDLGM_DATA"):
        load_data("mnist:test")


def test__load__folder_with_the_name_of_a_data_set__is_not_in_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert load_data("digits").X.shape == (1797, 64)


def test__load__digits__has_disjoint_splits():
    whole, train, test = (load_data(name) for name in ("digits", "digits:train", "digits:test"))
    np.testing.assert_array_equal(np.vstack([train.X, test.X]), whole.X)
    assert whole.X.shape == (1797, 64)
    assert whole.X.min() == 0
    assert whole.X.max() == 1
    assert whole.image_shape == (8, 8)
    with pytest.raises(DataError, match="splits"):
        load_data("digits:half")


@pytest.mark.skipif(not os.environ.get("SDLGM_DATA"), reason="SDLGM_DATA does not name a folder with MNIST")
def test__load__real_mnist__has_the_published_counts():
    train, test = load_data("mnist:train"), load_data("mnist:test")
    assert train.X.shape == (60_000, 784)
    assert test.X.shape == (10_000, 784)
    assert list(np.bincount(test.labels)) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert train.X.mean() == pytest.approx(0.1307, abs=1e-4)
