"""docs/reference/models.md lists all models, without an empty cell, and its numbers hold."""

import pytest

import model_table
from model_table import COLUMNS, OTHERS, rows
from models import MODELS

ROWS = rows()


def test_the_table_has_every_model():
    assert {(row.name, row.kind) for row in ROWS} == set(model_table.table())
    files = {path.stem for path in MODELS.rglob("*.onnx") if path.parent.name != "stories"}
    single = {row.name for row in ROWS if not row.spec and not row.parts}
    assert files | {"stories"} == single | set(OTHERS)
    assert len({row.family for row in ROWS}) >= 30


def test_no_cell_is_empty():
    for row in ROWS:
        cells = model_table.table()[row.name, row.kind]
        assert len(cells) == len(COLUMNS)
        for column, text in zip(COLUMNS, cells):
            if reason := model_table.find_reason(row, column):
                assert text == f"no: {reason[0]}"
            else:
                assert float(text) <= model_table.limit(row), (row.name, row.kind, text)


@pytest.mark.long
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.kind}")
def test_numbers(tpcc, tmp_path, row, column):
    if reason := model_table.find_reason(row, column):
        command = [row.write(tmp_path), "--generate", "-o", tmp_path / "program"]
        tpcc.call(command).refused(reason[1])
        return
    assert model_table.measure(tpcc, row, column, tmp_path) <= model_table.limit(row)
