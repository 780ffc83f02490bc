"""The report of `/healthz` on the wire: for anybody the status of each part; with a key, or on the health port, the
reasons too."""

from __future__ import annotations

from tickwise.api.wire import HealthDetails, HealthSummary, PartDetails
from tickwise.roles.shared.health import HealthReport, PartStatus


def summary_of(report: HealthReport) -> HealthSummary:
    """The part that anybody may know: no number, no name."""
    return HealthSummary(
        status=report.status.value, parts={name: part.status.value for name, part in report.parts.items()}
    )


def details_of(report: HealthReport) -> HealthDetails:
    """Each part with its sentence."""
    return HealthDetails(
        status=report.status.value,
        parts={
            name: PartDetails(status=part.status.value, detail=part.sentence) for name, part in report.parts.items()
        },
    )


def http_status_of(report: HealthReport) -> int:
    """503 if a part is failing, so that a monitor that reads no body sees it; a degraded one works."""
    return 503 if report.status is PartStatus.FAILING else 200
