"""Lines of a table in Markdown."""


def heading(first: str, *others: str) -> list[str]:
    """The first column to the left, the others to the right."""
    return [line(first, *others), f"|---{'|---:' * len(others)}|"]


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
