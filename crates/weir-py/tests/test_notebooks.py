"""The notebooks run, and show what they say. `--plots FOLDER` keeps their plots, for people to look at."""

import base64
import pathlib

import nbclient
import nbformat
import pytest
from conftest import TOP

NOTEBOOKS = sorted((TOP / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, request):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells), "clear the outputs before a commit"
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    plots, tables = 0, 0
    for number, cell in enumerate(cells):
        for output in cell.outputs:
            assert output.output_type != "stream" or output.name != "stderr", f"cell {number}: {output.text}"
            data = output.get("data", {})
            tables += "text/html" in data
            if "image/png" in data:
                plots += 1
                keep(request.config.getoption("--plots"), f"{path.stem}-{number}", data["image/png"])
            assert "plt.show()" not in cell.source or any("image/png" in one.get("data", {}) for one in cell.outputs)
    assert plots >= 2 and tables >= 1


def keep(folder: str | None, name: str, image: str) -> None:
    if folder is not None:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(folder) / f"{name}.png").write_bytes(base64.b64decode(image))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 6
