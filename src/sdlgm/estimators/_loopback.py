"""Processes of one machine that are reached through its loopback interface only."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

import torch.distributed as dist
from lightning_fabric.strategies.ddp import DDPStrategy
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] - documented there

StartMethod = Literal["popen", "spawn", "fork", "forkserver"]

START_METHODS: dict[str, StartMethod] = {
    "ddp": "popen",
    "ddp_spawn": "spawn",
    "ddp_fork": "fork",
    "ddp_forkserver": "forkserver",
    "ddp_notebook": "fork",
}
"""The strategies of Lightning Fabric that start processes on one machine."""

LOOPBACK = "127.0.0.1"


class LoopbackStrategy(DDPStrategy):
    """Connect processes by sockets that other machines cannot reach.

    By itself torch's store listens on all interfaces, whatever the address that it is given, and gloo on that of the
    host name. Neither authenticates those who connect.
    """

    def _setup_distributed(self) -> None:
        self._set_world_ranks()
        environment = self.cluster_environment
        assert environment is not None
        if not dist.is_initialized():
            timeout: dict[str, Any] = {} if self._timeout is None else {"timeout": self._timeout}
            with _loopback_variables():
                rank, size = environment.global_rank(), environment.world_size()
                store = _store(environment.main_port, rank, size, timeout)
                backend = self._get_process_group_backend()
                dist.init_process_group(backend, store=store, rank=rank, world_size=size, **timeout)
        super()._setup_distributed()  # leaves the group as it is


def _store(port: int, rank: int, n_processes: int, timeout: dict[str, Any]) -> TCPStore:
    """Return the store of a process. That of the first listens on a socket that is bound here."""
    common: dict[str, Any] = {"world_size": n_processes, **timeout}
    if rank > 0:
        return TCPStore(LOOPBACK, port, is_master=False, **common)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((LOOPBACK, port))
    listening.listen()
    # The store owns the socket from here on.
    # It need not wait for the others: they wait for it, and the group waits for them.
    return TCPStore(
        LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach(), **common
    )


@contextmanager
def _loopback_variables() -> Iterator[None]:
    """Let gloo and NCCL connect through the loopback interface, in a block."""
    variables = {f"{library}_SOCKET_IFNAME": _loopback_interface() for library in ("GLOO", "NCCL")}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _loopback_interface() -> str:
    """Return the name of the loopback interface: lo, or lo0 on macOS and BSD."""
    with suppress(OSError):
        for _, name in socket.if_nameindex():
            if name in ("lo", "lo0"):
                return name
    return "lo"
