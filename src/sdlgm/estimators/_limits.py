"""Bounds of settings that decide how much memory and time a model takes.

They hold for users and for files alike, so that every model that can be fitted can be loaded, and a file with other
settings than its tensors have cannot make a model take all memory. Settings that are the size of a tensor have no bound
here: they are compared with the tensors of the file.
"""

LARGEST_BUDGET = 10**4
"""Largest ``max_active``. Draws have as many slots, and distributions of numbers of labels as many entries.

The number of features is no bound: a model with counts for codes may use one feature several times, and one with sets
has a prior of ``max_active`` slots even if it has fewer features.
"""
LARGEST_N_SAMPLES = 10**4
"""Largest ``n_samples``: each sample of a row is decoded. More samples than this change no digit that is printed."""
MOST_LAYERS = 1000
"""Most entries of ``hidden`` and of any other setting that is a list."""
MOST_VALUES = 2**27
"""Numbers of a tensor for several rows: half a gigabyte in single precision. Fewer rows are computed at a time if those
of a batch have more, and a setting with which a single row has more is refused.
"""
