"""The same bits from another process."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, torch
torch.set_num_threads(1)
from sklearn.datasets import load_digits
from sdlgm import SDLGM
X = load_digits().data[:200] / 16
checksum = hashlib.sha256()
for posterior, gradient in (("chain", "reinmax"), ("shared", "gumbel_softmax"), ("subset", "reinmax")):
    model = SDLGM(n_components=16, max_active=5, hidden=(32,), max_iter=15, posterior=posterior,
                  gradient=gradient, random_state=0)
    for _, tensor in sorted(model.fit(X).module_.state_dict().items()):
        checksum.update(tensor.numpy().tobytes())
print(checksum.hexdigest())
"""


@pytest.mark.slow
def test__other_process__compiled_anew_or_from_the_cache__gives_the_same_bits(tmp_path):
    checksums = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        ).stdout
        for _ in range(2)
    ]
    assert checksums[0] == checksums[1]
    assert len(checksums[0]) > 60
