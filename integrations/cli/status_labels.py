"""What `demur status` says about how far the labels can be trusted."""

from __future__ import annotations

from ...evaluation.estimate import Estimate
from ...router.label_report import LabelCoverage

_MOST_REGIONS = 6


def label_lines(coverage: LabelCoverage, delivered: LabelCoverage | None) -> list[str]:
    """Accuracy as it looks and as it is, and where nobody looks; in sentences."""
    lines = _accuracy("all {}", coverage)
    if delivered is not None:
        lines += _accuracy("the {} delivered", delivered)
    lines += [f"No label: {region}." for region in coverage.blind[:_MOST_REGIONS]]
    if len(coverage.blind) > _MOST_REGIONS:
        lines.append(f"No label: {len(coverage.blind) - _MOST_REGIONS} more regions (--json shows them).")
    return lines


def _accuracy(which: str, found: LabelCoverage) -> list[str]:
    whole = f"Accuracy of {which.format(found.calls)} responses"
    if found.naive.value is None:
        return [f"{whole}: unknown, nothing is graded yet."]
    naive = f"Unweighed, of the {found.graded} graded: {_share(found.naive)}"
    if found.weighted is None:
        said = f"{whole}: not known ({found.refused}). {naive}"
    else:
        said = (
            f"{whole}, weighed by the chance of being graded: {_share(found.weighted)}, as sure as "
            f"{found.effective:.0f} even draws. {naive}"
        )
    notes = []
    if found.unasked:
        notes.append(f"{found.unasked} were graded though nobody had asked, and are left out of the weighing")
    if found.pending:
        notes.append(f"{found.pending} that were deferred or drawn are not graded yet")
    return ["; ".join([said, *notes]) + "."]


def _share(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "unknown"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"
