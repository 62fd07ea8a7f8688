"""Training: batches, the loop, schedules, checkpoints, processes."""

from sdlgm.train.batches import Batches, ShuffledBatches, StreamedBatches, Targets, binarize, to_tensor
from sdlgm.train.checkpoint import Checkpoint
from sdlgm.train.config import TrainConfig
from sdlgm.train.convergence import Gain, convergence_problem, frequency_log_prob
from sdlgm.train.loop import fit
from sdlgm.train.monitor import Monitor, Record, record_of
from sdlgm.train.processes import ALONE, FabricProcesses, Processes
from sdlgm.train.progress import Progress
from sdlgm.train.seeds import seeded
from sdlgm.train.trainer import Trainer, state_of

__all__ = [
    "ALONE",
    "Batches",
    "Checkpoint",
    "FabricProcesses",
    "Gain",
    "Monitor",
    "Processes",
    "Progress",
    "Record",
    "ShuffledBatches",
    "StreamedBatches",
    "Targets",
    "TrainConfig",
    "Trainer",
    "binarize",
    "convergence_problem",
    "fit",
    "frequency_log_prob",
    "record_of",
    "seeded",
    "state_of",
    "to_tensor",
]
