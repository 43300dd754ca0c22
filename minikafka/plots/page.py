"""The skeleton of a page. What it is given as HTML must be escaped; titles and words of cards it escapes itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from minikafka.plots.charts import STYLE


def page(title: str, body: str, style: str = "") -> str:
    """A whole page, to be written in UTF-8; ``style`` is further CSS."""
    css = (resources.files(__package__) / "page.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{css}{STYLE}{style}</style></head>\n<body>{body}</body></html>\n"
    )


def tile(what: str, number: str, more: str, kind: str = "") -> str:
    """A figure with its name above and a remark below."""
    return f'<div class="tile"><span>{what}</span><b>{number}</b><span class="{kind}">{more}</span></div>'


def card(title: str, words: str, content: str, kind: str = "") -> str:
    """A part of the page."""
    return f'<div class="card {kind}"><h2>{escape(title)}</h2><p>{escape(words)}</p>{content}</div>'


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is aligned to the left, the others to the right."""
    header = "".join(f"<th>{name}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{header}</tr>{lines}</table>"
