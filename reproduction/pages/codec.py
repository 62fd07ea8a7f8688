"""docs/results/codec.md and docs/results/lossless.md: the sizes of codes and of rows without loss."""

from collections.abc import Mapping
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

Result = Mapping[str, Any]


def page(result: Result) -> str:
    """Return the page of codes."""
    ideal, ceiling = result["ideal_bits"], result["ceiling"]
    lines = heading("form", "bits a row", "beyond the ideal", "rows/s written", "rows/s read")
    for row in result["rows"]:
        share = f"{row['bits'] - ideal:.2f} ({row['bits'] / ideal - 1:.2%})"
        speeds = [f"{row[key]:,.0f}" for key in ("written_per_second", "read_per_second")]
        lines.append(line(row["system"], f"{row['bits']:.2f}", share, *speeds))
    return "\n".join(
        [
            "# Codes on the wire",
            "",
            generated_from("codec.json"),
            "",
            f"Codes of {result['n_rows']:,} rows of {result['data']}, with at most {result['max_active']} of "
            f"{result['n_components']} features. Under the prior they have {ideal:.2f} bits on average. "
            "[Codes on the wire](../wire.md) says how to write them.",
            "",
            *lines,
            "",
            f"No message may have more than {ceiling['max_bytes']} bytes. Of {ceiling['tried']:,} messages of "
            f"random codes the longest had {ceiling['longest']}; {ceiling['as_numbers']:,} were written as the number "
            "of the code.",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def lossless_page(result: Result) -> str:
    """Return the page of rows without loss."""
    sizes = heading("system", "bits a pixel", "bytes")
    for row in sorted(result["rows"], key=lambda row: row["bits_per_pixel"]):
        sizes.append(
            line(row["system"], f"{row['bits_per_pixel']:.4f}", f"{row['bytes']:,}" if row["bytes"] else "(quoted)")
        )
    own = heading(
        "model",
        "iterations",
        "bound, bits a pixel",
        "beyond it",
        "first bits",
        "bytes of the model",
        "rows/s written",
        "read",
    )
    for row in result["rows"]:
        if bound := row.get("bound_bits_per_pixel"):
            own.append(
                line(
                    row["system"],
                    f"{row['iterations']:,}",
                    f"{bound:.4f}",
                    f"{row['bits_per_pixel'] / bound - 1:.2%}",
                    f"{row['first_bits']:,}",
                    f"{row['model_bytes']:,}",
                    f"{row['written_per_second']:,.0f}",
                    f"{row['read_per_second']:,.0f}",
                )
            )
    return "\n".join(
        [
            "# Binary pictures without loss",
            "",
            generated_from("lossless.json"),
            "",
            f"{result['n_rows']:,} test pictures of {result['data']}, of {result['n_pixels']} binary pixels. The model "
            "is not part of the sizes; the second table has its own.",
            "",
            *sizes,
            "",
            *own,
            "",
            "The bound is that of the model for these rows; first bits are those of the file that the first rows of a "
            "block need before others have put any there.",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
