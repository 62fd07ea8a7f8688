"""Several processes that share every batch."""

import contextlib
import ipaddress
import itertools
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from sklearn.exceptions import ConvergenceWarning
from torch.multiprocessing.spawn import start_processes

from sdlgm import SDLGM, ProcessLostError
from sdlgm._signals import Interrupted
from sdlgm.estimators import _distributed
from sdlgm.model import Batch, Noise, Objective
from sdlgm.model.shards import Shard
from sdlgm.train import ALONE, FabricProcesses, Monitor, Processes, Trainer

SETTINGS = {
    "n_components": 16,
    "max_active": 5,
    "hidden": (32,),
    "max_iter": 6,
    "batch_size": 100,  # two blocks of noise for each of two processes
    "refine": 0,
    "random_state": 0,
}


class FakeFabric:
    """The methods of Fabric that `FabricProcesses` calls, on an existing process group."""

    def __init__(self):
        self.global_rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def all_reduce(self, tensor: torch.Tensor, reduce_op: str) -> torch.Tensor:
        dist.all_reduce(tensor)
        return tensor / self.world_size if reduce_op == "mean" else tensor

    def barrier(self) -> None:
        dist.barrier()


def gradients_of_first_step(options: dict, rows: np.ndarray, processes: Processes = ALONE) -> dict[str, np.ndarray]:
    """Return the gradients that the optimiser gets in the first step, and the buffers."""
    found = {}

    class StopError(Exception):
        pass

    step = Trainer.step

    def stopped(trainer: Trainer, batch: Batch) -> Objective:
        def stop(*_args, **_kwargs):
            module = trainer.module
            found.update({name: p.grad.clone().numpy() for name, p in module.named_parameters() if p.grad is not None})
            found.update({f"buffer.{name}": b.clone().float().numpy() for name, b in module.named_buffers()})
            raise StopError

        trainer.optimizer.step = stop
        return step(trainer, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", stopped)
        with pytest.raises(StopError):
            SDLGM(**{**SETTINGS, **options})._fit(rows, processes=processes)
    return found


def one_of_two(rank: int, port: int, options: dict, rows: np.ndarray, path: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = gradients_of_first_step(options, rows, FabricProcesses(FakeFabric()))
    if rank == 0:
        np.savez(path, **found)  # pyright: ignore[reportArgumentType]
    dist.destroy_process_group()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"posterior": "subset", "binarize": "threshold"}, marks=pytest.mark.slow),
        pytest.param({"posterior": "shared", "gradient": "gumbel_softmax"}, marks=pytest.mark.slow),
        pytest.param({"posterior": "ordered"}, marks=pytest.mark.slow),
    ],
)
def test__two_processes__same_batch__give_the_gradients_of_one(digits, tmp_path, options):
    path = tmp_path / "found.npz"
    start_processes(one_of_two, (free_port(), options, digits, str(path)), nprocs=2, start_method="fork")
    alone = gradients_of_first_step(options, digits)
    with np.load(path) as found:
        assert set(found.files) == set(alone)
        for name, expected in alone.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-5, err_msg=name)
    assert max(np.abs(value).max() for value in alone.values()) > 1e-3


SCRIPT = """
import os, signal, sys
import numpy as np, torch
torch.set_num_threads(1)
from sklearn.datasets import load_digits
from sdlgm import SDLGM
from sdlgm.train import Trainer

step = Trainer.step

def dying(self, batch):
    if self.iteration == 15 and self.processes.shard.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, batch)

if os.environ.get("DIE"):
    Trainer.step = dying

def main():
    X = (load_digits().data[:400] / 16).astype(np.float32)
    settings = dict(n_components=16, max_active=5, hidden=(32,), max_iter=30, batch_size=100, random_state=0)
    model = SDLGM(**settings, devices=2, checkpoint_dir=sys.argv[1], checkpoint_every=10, resume=True).fit(X)
    assert model.n_iter_ == 30 and len(model.history_) == 6
    model.save(sys.argv[2] + os.environ.get("RANK", ""))
    if os.environ.get("RANK") == "0":  # the others need not do the same after the fit
        assert model.partial_fit(X[:60]).n_iter_ == 31

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def run(*command, **environment: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test__fit__devices__starts_processes_and_resumes_bit_for_bit(script, tmp_path):
    whole = run(script, tmp_path / "a", tmp_path / "whole.sdlgm")
    assert whole.returncode == 0, whole.stderr
    died = run(script, tmp_path / "b", tmp_path / "resumed.sdlgm", DIE="1")
    assert died.returncode != 0
    assert "ProcessLostError" in died.stderr
    assert "resume=True" in died.stderr
    assert not (tmp_path / "resumed.sdlgm").exists()
    resumed = run(script, tmp_path / "b", tmp_path / "resumed.sdlgm")
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "resumed.sdlgm").read_bytes() == (tmp_path / "whole.sdlgm").read_bytes()


LISTENING = """
import os, sys, time
from pathlib import Path
import numpy as np, torch
torch.set_num_threads(1)
from sdlgm import SDLGM
from sdlgm.train import Trainer

step = Trainer.step

def waiting(self, batch):
    folder = Path(os.environ["FOLDER"])
    if self.iteration == 2:  # all are connected
        (folder / f"ready-{self.processes.shard.rank}").write_text(str(os.getpid()))
        while not (folder / "seen").exists():
            time.sleep(0.01)
    return step(self, batch)

Trainer.step = waiting
if __name__ == "__main__":
    X = np.random.default_rng(0).random((100, 6))
    settings = dict(n_components=8, max_active=3, hidden=(8,), max_iter=5, batch_size=50, random_state=0)
    assert SDLGM(**settings, devices=2, strategy=sys.argv[1]).fit(X).n_iter_ == 5
    assert not [name for name in os.environ if name.endswith("_SOCKET_IFNAME")]
"""


def listening_addresses(process: int) -> list[str]:
    """Return the addresses of the sockets on which a process of Linux listens."""
    folder = Path(f"/proc/{process}")
    inodes = set()
    for link in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):
            kind, _, inode = str(link.readlink()).partition(":")
            inodes |= {inode.strip("[]")} if kind == "socket" else set()
    found = []
    for table, length in (("tcp", 4), ("tcp6", 16)):
        for line in (folder / "net" / table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                words = np.frombuffer(bytes.fromhex(local.partition(":")[0]), ">u4").astype("<u4").tobytes()
                assert len(words) == length
                found.append(str(ipaddress.ip_address(words)))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("strategy", ["auto", pytest.param("ddp", marks=pytest.mark.slow)])
def test__fit__devices_of_one_machine__listens_on_the_loopback_interface_only(tmp_path, strategy):
    (tmp_path / "train.py").write_text(LISTENING)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FOLDER": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "train.py"), strategy]
    started = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    ready = [tmp_path / f"ready-{rank}" for rank in range(2)]
    try:
        while started.poll() is None and not all(path.exists() and path.read_text() for path in ready):
            time.sleep(0.05)
        assert started.poll() is None, started.communicate()[1]
        addresses = [listening_addresses(int(path.read_text())) for path in ready]
        addresses.append(listening_addresses(started.pid))
    finally:
        (tmp_path / "seen").touch()
        _, message = started.communicate()
    assert started.returncode == 0, message
    assert len(addresses[0]) >= 2  # the store and gloo
    assert addresses[1]
    assert all(ipaddress.ip_address(address).is_loopback for address in itertools.chain(*addresses)), addresses


FAILING = """
import sys
import numpy as np, torch
torch.set_num_threads(1)
from sdlgm import SDLGM
from sdlgm.errors import TrainingDivergedError
from sdlgm.train import Trainer

step = Trainer.step

def diverging(self, batch):
    if self.iteration == 12:
        raise TrainingDivergedError("kl is not finite at iteration 12")
    return step(self, batch)

def main():
    X = np.random.default_rng(0).random((200, 6))
    model = SDLGM(n_components=8, max_active=3, hidden=(8,), max_iter=30, batch_size=50, random_state=0, devices=2)
    try:
        model.fit(X)
    except TrainingDivergedError as error:
        assert "keeps the parameters of iteration 10" in str(error), error
    assert model.n_iter_ == 10
    X[150, 2] = np.nan
    try:
        model.fit(X)
    except ValueError as error:
        print(type(error).__name__, error)

Trainer.step = diverging
if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test__error_in_the_processes__comes_back_as_what_it_was(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    done = run(tmp_path / "failing.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ValueError Input X contains NaN")


class OneProcess:
    """What a process that was started for a fit needs of Fabric."""

    global_rank, world_size = 0, 1

    def all_reduce(self, tensor: torch.Tensor, reduce_op: str) -> torch.Tensor:
        return tensor

    def barrier(self) -> None: ...


def fit_as_child(digits, path, **options) -> None:
    _distributed._fit_and_save(OneProcess(), SDLGM(**{**SETTINGS, **options}), digits, path)  # pyright: ignore


@pytest.mark.parametrize("fails", ["float('x')", "raise TypeError('x')"])
def test__bug_in_a_process__is_not_reported_as_an_error_of_the_user(digits, tmp_path, monkeypatch, fails):
    names = {"__name__": "sdlgm.model.slots"}
    exec(f"def step(*_):\n    {fails}", names)
    monkeypatch.setattr(Trainer, "step", names["step"])
    with pytest.raises((ValueError, TypeError)):
        fit_as_child(digits, tmp_path / "model.sdlgm")


def test__bad_data_in_a_process__is_sent_by_name(digits, tmp_path):
    with pytest.raises(RuntimeError) as caught:
        fit_as_child(np.full_like(digits, np.inf), tmp_path / "model.sdlgm")
    with pytest.raises(ValueError, match="Input X contains infinity"):
        _distributed._raise_named(caught.value)


def test__interrupt_in_a_process__ends_it_with_a_code(digits, tmp_path, monkeypatch):
    """torch would take a KeyboardInterrupt for success, and the parent would wait for a result."""

    def interrupted(*_):
        raise Interrupted("", signal.SIGTERM)

    monkeypatch.setattr(Trainer, "step", interrupted)
    monkeypatch.setattr(_distributed.multiprocessing, "parent_process", lambda: "a process")
    with pytest.raises(SystemExit) as caught:
        fit_as_child(digits, tmp_path / "model.sdlgm")
    assert caught.value.code == 143


def test__dead_features_in_processes__are_a_warning_of_the_parent(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(_distributed, "_fabric", lambda *_: FakeLauncher())
    problem = "the codes use 7 of 16 features, and most are dead"
    monkeypatch.setattr(
        "sdlgm.train.convergence_problem", lambda *_, **options: problem if options["n_features"] else None
    )
    with pytest.warns(ConvergenceWarning, match=problem) as caught:
        SDLGM(**SETTINGS, devices=2).fit(digits)
    assert caught[0].filename == __file__


class FakeLauncher:
    """Runs the function of a child in this process."""

    def launch(self, function) -> None:
        function(OneProcess())


@pytest.mark.slow
def test__torchrun__is_recognised(script, tmp_path):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    done = run(*launcher, script, tmp_path / "c", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model0").read_bytes() == (tmp_path / "model1").read_bytes()


@pytest.mark.slow
def test__process_that_dies__is_noticed_by_the_others(script, tmp_path):
    """Processes as torchrun starts them, without a launcher that ends the others."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GROUP_RANK": "0"}
    common |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "test", "DIE": "1"}
    with ThreadPoolExecutor(2) as pool:
        survivor, dead = pool.map(
            lambda rank: run(script, tmp_path / "c", tmp_path / "model", **common, RANK=rank, LOCAL_RANK=rank), "01"
        )
    assert dead.returncode == -signal.SIGKILL
    assert survivor.returncode not in (0, -signal.SIGKILL)
    assert "ProcessLostError" in survivor.stderr
    assert (tmp_path / "c" / "checkpoint.safetensors").exists()


def test__settings__that_cannot_be_shared__are_refused(digits):
    for wrong, message in (
        ({"batch_size": 51}, "divided"),
        ({"random_state": None}, "integer random_state"),
        ({"gradient": "score_function"}, "shared"),
    ):
        with pytest.raises(ValueError, match=message):
            SDLGM(**{**SETTINGS, **wrong}, devices=2).fit(digits)
    with pytest.raises(ValueError, match="there are 7 rows"):
        SDLGM(**SETTINGS, devices=2)._fit(digits[:7])
    with pytest.raises(ValueError, match="callback"):
        SDLGM(**SETTINGS, devices=2).fit(digits, callback=lambda *_: None)
    assert issubclass(ProcessLostError, RuntimeError)


class Half(Processes):
    """One of two processes; the other has counted ``others``."""

    def __init__(self, rank: int, others: np.ndarray):
        self.shard = Shard(rank, 2)
        self.others = others

    def sum(self, values: list[float]) -> list[float]:
        return [*values[:6], *(values[6:] + self.others)]


@pytest.mark.parametrize("posterior", ["chain", "shared", "ordered", "subset"])
def test__monitor__features_in_use__are_those_of_the_codes_of_all_processes(digits, posterior):
    model = SDLGM(**SETTINGS, posterior=posterior, binarize="threshold").fit(digits)
    module, watched = model.module_, (digits[:7] > 0.5).astype(np.float32)
    config = model._train_config("bernoulli", model._limits())
    monitor = Monitor(watched, seed=3)

    def codes(rank: int, n_processes: int) -> np.ndarray:
        x = torch.from_numpy(watched[rank::n_processes])
        with torch.no_grad():
            return module.eval().inference(x).sample(1, Noise.seeded(3 + rank))[0].numpy() > 0

    def features_used(processes: Processes) -> int | None:
        return monitor(Trainer(module, config, seed=0, processes=processes, iteration=1)).features_used

    assert features_used(ALONE) == codes(0, 1).any(axis=0).sum()
    first, second = codes(0, 2), codes(1, 2)
    assert features_used(Half(0, second.sum(axis=0))) == (first.any(axis=0) | second.any(axis=0)).sum()
    assert features_used(Half(1, np.zeros(16))) == second.any(axis=0).sum()
