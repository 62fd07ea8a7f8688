"""The page "How long will it take": seconds until something happens, and the time of the parts of the work."""

from typing import Any

from reproduction.pages.markdown import command_text, heading, line

Result = dict[str, Any]


def blocks(result: Result) -> dict[str, list[str]]:
    """Return the generated blocks of ``docs/time.md``."""
    return {"sizes": _sizes(result), "start": _start(result)}


def _sizes(result: Result) -> list[str]:
    n_iterations = result["default_max_iter"]
    lines = heading(
        "data", "ms an iteration", f"`fit`, {n_iterations:,} iterations", "`transform`", "`evaluate`", "`report`"
    )
    for name, parts in result["sizes"].items():
        lines.append(
            line(
                name,
                f"{1000 * parts['iteration']:.1f}",
                _duration(n_iterations * parts["iteration"]),
                *(_duration(parts[part]) for part in ("transform", "evaluate", "report")),
            )
        )
    return [*lines, "", _protocol(result)]


def _start(result: Result) -> list[str]:
    seconds, fits = result["seconds"], result["fits"]
    reference = seconds["import torch, sklearn"]
    lines = heading("", "seconds")
    lines += [line(f"`{name}`", f"{value:.2f}") for name, value in seconds.items()]
    lines += [
        line("first fit of a process, twenty iterations", f"{fits['first']:.2f}"),
        line("the same fit again", f"{fits['second']:.2f}"),
        line("first fit on a machine, which compiles the kernels", f"{result['compiling']:.1f}"),
    ]
    more = seconds["from sdlgm import SDLGM"] - reference
    return [
        *lines,
        "",
        f"`from sdlgm import SDLGM` takes {more:.2f} seconds more than torch and scikit-learn alone, and the first fit "
        f"of a process {fits['first'] - fits['second']:.2f} seconds more than the next.",
    ]


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _protocol(result: Result) -> str:
    threads = "one thread" if result["threads"] == 1 else f"{result['threads']} threads"
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return (
        f"Seconds of the processor with {threads} on a machine with {result['cores']} cores; the time of `fit` is that "
        f"of the median of {result['iterations']} iterations, scaled. {versions}; {command_text(result['command'])}."
    )
