"""From CSV files of 5G measurements to bytes, and back: what a thin link delivers, and a picture of it.

With $SDLGM_DATA the files are real ones of phones on drives, otherwise they are made here.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sdlgm import SDLGM
from sdlgm.data import read_series, windows

SECONDS, KPIS = 16, ["RSRP", "RSRQ", "SNR", "DL_bitrate"]


def made_traces(folder: Path) -> Path:
    """Write traces of drives past cells, with "-" for what the phone did not report."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for drive in range(6):
        seconds = np.arange(900)
        near = np.square(np.sin(seconds / rng.uniform(40, 60) + rng.uniform(0, 6)))  # to the next cell
        trace = pd.DataFrame({"Timestamp": pd.Timestamp("2026-01-01") + pd.to_timedelta(seconds, "s")})
        trace["RSRP"] = np.rint(-110 + 30 * near + rng.normal(size=900))
        trace["RSRQ"] = np.rint(-16 + 8 * near + rng.normal(size=900))
        trace["SNR"] = np.rint(20 * near + rng.normal(size=900))
        trace["DL_bitrate"] = np.rint(60_000 * near * rng.uniform(0.8, 1.2, 900))
        trace = trace.astype({"SNR": object})
        trace.loc[rng.random(900) < 0.05, "SNR"] = "-"
        trace.to_csv(folder / f"drive{drive}.csv", index=False)
    return folder


folder = Path(os.environ.get("SDLGM_DATA", ""), "telemetry", "5g", "Download", "Driving")
table = read_series(folder if folder.is_dir() else made_traces(Path("traces"))).to_pandas()
traces = table["file"].unique()
known, new = table[table["file"] != traces[0]], table[table["file"] == traces[0]]  # the model never sees this drive
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # gaps in the traces; no window spans them
    cut = {"time_column": "Timestamp", "group": "file", "columns": KPIS}
    model = SDLGM(n_components=128, max_active=16, likelihood="gaussian", max_iter=800, random_state=0)
    model.fit(windows(known, length=SECONDS, stride=4, **cut))
    drive = windows(new, length=SECONDS, stride=SECONDS, **cut)

codes, within = model.compress(drive), model.compress(drive, max_error=[6.0, 3.0, 6.0, 20_000.0])
seconds = len(drive) * SECONDS
print(f"{seconds} seconds of {len(KPIS)} KPIs, bytes a second: {len(new[KPIS].to_csv()) / len(new):.1f} as CSV,")
print(f"{len(codes) / seconds:.2f} as codes, {len(within) / seconds:.2f} with errors within bounds")

measured, decoded, bounded = (
    drive.inverse(rows) for rows in (drive.matrix, model.decompress(codes), model.decompress(within))
)
figure = Figure(figsize=(10, 7), layout="constrained")
panels = figure.subplots(len(KPIS), 1, sharex=True)
for panel, name in zip(panels, KPIS, strict=True):
    panel.plot(measured[name][:400], color="0.6", label="measured")
    panel.plot(bounded[name][:400], color="tab:orange", linewidth=0.8, label="within bounds")
    panel.plot(decoded[name][:400], color="tab:blue", linewidth=0.8, label="codes")
    panel.set_ylabel(name)
panels[-1].legend(ncols=3, loc="upper left")
panels[-1].set_xlabel("seconds")
figure.savefig("measurements_5g.png", dpi=90)
