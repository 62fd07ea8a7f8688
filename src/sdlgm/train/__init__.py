"""Training: the loop, its schedules, its checkpoints and what it watches."""

from sdlgm.train.batches import AnyBatches, ShuffledBatches, StreamedBatches, binarize, to_tensor
from sdlgm.train.checkpoint import Checkpoint
from sdlgm.train.config import TrainConfig
from sdlgm.train.loop import fit
from sdlgm.train.monitor import Monitor, Record, record_of
from sdlgm.train.processes import ALONE, FabricProcesses, Processes
from sdlgm.train.progress import Progress
from sdlgm.train.seeds import seeded
from sdlgm.train.supervised import SupervisedMonitor, SupervisedTrainer, packed
from sdlgm.train.trainer import Trainer, parameters_of

__all__ = [
    "ALONE",
    "AnyBatches",
    "Checkpoint",
    "FabricProcesses",
    "Monitor",
    "Processes",
    "Progress",
    "Record",
    "ShuffledBatches",
    "StreamedBatches",
    "SupervisedMonitor",
    "SupervisedTrainer",
    "TrainConfig",
    "Trainer",
    "binarize",
    "fit",
    "packed",
    "parameters_of",
    "record_of",
    "seeded",
    "to_tensor",
]
