"""Every row of measured.csv: exact, or within the row's tolerance and with its reason."""

from pathlib import Path

import measured
import pytest

ROWS = measured.rows()


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_prediction_is_what_was_measured(drydock_command: str, tmp_path: Path, row: measured.Row) -> None:
    predicted = measured.predict(row, drydock_command, tmp_path / "run")
    assert abs(row.error_percent(predicted)) <= row.tolerance_percent, f"{predicted:,} against {row.measured:,.0f} B"


def test_every_deviation_has_its_reason() -> None:
    assert [row.name for row in ROWS if row.tolerance_percent > 0 and not row.deviation] == []
