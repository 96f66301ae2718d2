"""`drydock report`, looked at with a headless Chromium."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from headless_browser import Browser, chromium

PROGRAM = """
import torch
import torch_npu

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

model = Model().npu()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    inputs = torch.ones(64 * (1 + step % 3), 256, device="npu")
    model(inputs).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

OUT_OF_MEMORY = PROGRAM + "held = [torch.empty(4 * 2**30, dtype=torch.uint8, device='npu') for _ in range(99)]\n"


def report(command: str, run: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Make the report of a run."""
    return subprocess.run(
        [command, "report", str(run), "-o", str(page), *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def dead_run(drydock_command, tmp_path_factory):
    """A run that died out of memory, and its report."""
    folder = tmp_path_factory.mktemp("report")
    program = folder / "train é <b>'\"&.py"
    program.write_text(OUT_OF_MEMORY, encoding="utf-8")
    run = folder / "run"
    done = subprocess.run(
        [drydock_command, "run", "--out", str(run), "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
    )
    assert "OUT OF MEMORY" in done.stderr
    page = folder / "report.html"
    made = report(drydock_command, run, page)
    assert made.returncode == 0, made.stderr
    return run, page


@pytest.fixture
def browser():
    """A browser of 1280 x 900."""
    assert chromium(), "there is no Chromium: tools/setup installs it"
    with Browser() as browser:
        yield browser


def data_of(page: Path) -> dict:
    """Return the first device's data."""
    return json.loads(re.search(r'class="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL).group(1))


def share_of(browser: Browser, moment: str) -> float:
    """Return where a moment lies in the chart, as a share of its width."""
    return browser.evaluate(
        f"(() => {{ const d = drydockPage.devices[0]; const at = d.moments.list[{moment}].time / 1e6;"
        " return d.chart.graph.toDomXCoord(at) / document.querySelector('.chart').clientWidth; })()"
    )


def test_page_opens_quietly_and_without_network(dead_run, browser):
    _, page = dead_run
    seconds = browser.open(page)
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
    assert seconds < 10
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("OUT OF MEMORY")
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window"


def test_curve_is_drawn_and_names_holders(dead_run, browser):
    _, page = dead_run
    browser.open(page)
    painted = browser.evaluate(
        "(() => { const c = document.querySelector('.chart canvas'); const p = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n; })()"
    )
    assert painted > 1000
    browser.hover(".chart", share_of(browser, "d.data.peakMoment"))
    readout = browser.evaluate("document.querySelector('.readout').textContent")
    assert re.search(r"allocated [0-9.]+ [GM]iB, reserved [0-9.]+ [GM]iB, workspace", readout)
    assert re.search(r"train é <b>'\"&.py:\d+", readout), readout
    data = data_of(page)
    assert max(data["curve"]["allocated"]) == max(moment[2] for moment in data["moments"])


def test_click_and_keys_choose_the_moment_of_the_flame_graph(dead_run, browser):
    _, page = dead_run
    browser.open(page)
    root = "document.querySelector('.frames button').title"
    at_death = browser.evaluate(root)
    assert "60.00 GiB" in at_death or "56.00 GiB" in at_death, at_death
    first = share_of(browser, "0")
    browser.drag(".chart", first, first)
    early = browser.evaluate(root)
    assert "MiB" in early
    assert early != at_death
    browser.evaluate("document.querySelector('.chart').focus()")
    for _ in range(500):
        browser.key("ArrowRight")
        if browser.evaluate(root) == at_death:
            break
    else:
        pytest.fail("the keys do not lead to the last moment")
    frames = browser.evaluate("[...document.querySelectorAll('.frames button')].map((b) => b.title)")
    assert any(re.search(r"py:\d+.*GiB.*bytes", frame) for frame in frames), frames


def test_holders_at_the_death_are_the_accounts(dead_run, browser):
    run, page = dead_run
    data = data_of(page)
    moments, held = [], {}
    for _, _, total, changes in data["moments"]:
        held = {**held, **{changes[index]: changes[index + 1] for index in range(0, len(changes), 3)}}
        moments.append((total, {holder: size for holder, size in held.items() if size > 0}))
    total, at_death = moments[data["refusalMoment"]]
    kinds: dict[str, int] = {}
    for holder, size in at_death.items():
        kind = data["holders"][holder][0]
        kinds[kind] = kinds.get(kind, 0) + size
    rows = sqlite3.connect(run / "ledger.sqlite").execute(
        "SELECT kind, sum(bytes) FROM account_holders WHERE moment = 'out of memory' AND bytes > 0 GROUP BY kind"
    )
    assert kinds == dict(rows)
    assert sum(kinds.values()) == total
    # Biases are too small for the picture, and put together.
    modules: dict[tuple[str, str], int] = {}
    for holder, size in moments[0][1].items():
        kind, _, _, _, module = data["holders"][holder]
        modules[kind, module] = modules.get((kind, module), 0) + size
    assert modules["parameters", "layers.3"] == 256 * 256 * 4 + 512, modules
    assert modules["parameters", ""] >= 4 * (1024 + 512), modules

    browser.open(page)
    browser.evaluate("drydockPage.devices[0].chart.select(0)")
    frames = browser.evaluate("[...document.querySelectorAll('.frames button')].map((b) => b.textContent)")
    assert any(frame.startswith("parameters: ") for frame in frames), frames
    assert any(frame.startswith("layers: ") for frame in frames), frames


def test_drag_zooms_and_reset_shows_all(dead_run, browser):
    _, page = dead_run
    browser.open(page)
    extent = "drydockPage.devices[0].chart.graph.xAxisRange().reduce((a, b) => b - a)"
    whole = browser.evaluate(extent)
    browser.drag(".chart", 0.4, 0.6)
    assert browser.evaluate(extent) < whole / 2
    browser.evaluate("[...document.querySelectorAll('.tools button')].find((b) => b.textContent == 'Show all').click()")
    assert browser.evaluate(extent) == whole


def test_segment_map_has_the_blocks(dead_run, browser):
    run, page = dead_run
    layout = data_of(page)["layout"]
    assert layout["refusal"]
    assert sum(segment[2] for segment in layout["segments"]) == len(layout["blocks"])
    with sqlite3.connect(run / "ledger.sqlite") as ledger:
        allocated, reserved = ledger.execute(
            "SELECT allocated_bytes, reserved_bytes FROM out_of_memories ORDER BY record DESC"
        ).fetchone()
    workspace = [number for number, row in enumerate(data_of(page)["holders"]) if row[0] == "workspace"]
    assert sum(block[1] for block in layout["blocks"] if block[3] not in workspace) == allocated
    assert sum(segment[1] for segment in layout["segments"]) >= reserved
    browser.open(page)
    browser.hover(".strip canvas", 0.3, 0.1)
    said = browser.evaluate("document.querySelector('.map .line-readout').textContent")
    assert re.search(r"bytes.*(, train|a hole)", said) or said.startswith("a hole"), said
    browser.evaluate("document.querySelector('.strip canvas').focus()")
    browser.key("End")
    assert "4,294,967,808 bytes" in browser.evaluate("document.querySelector('.map .line-readout').textContent")


def test_tables_sort_and_filter(dead_run, browser):
    _, page = dead_run
    browser.open(page)
    column = "[...document.querySelectorAll('#lines0 tbody tr')].map((r) => Number(r.cells[7].dataset.value))"
    for order in (True, False):
        browser.evaluate("document.querySelectorAll('#lines0 th button')[7].click()")
        values = browser.evaluate(column)
        assert values == sorted(values, reverse=order)
    browser.evaluate(
        "(() => { for (const i of document.querySelectorAll('input[type=search]')) { i.value = 'no such line';"
        " i.dispatchEvent(new Event('input')); } })()"
    )
    assert browser.evaluate("[...document.querySelectorAll('#lines0 tbody tr')].every((r) => r.hidden)")


def test_without_scripts_verdict_and_tables_are_there(dead_run):
    _, page = dead_run
    text = page.read_text(encoding="utf-8")
    assert "<table" in text
    with Browser(scripts=False) as browser:
        browser.open(page)
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        names = " ".join(str(node.get("name", {}).get("value", "")) for node in nodes)
        assert "OUT OF MEMORY" in names
        assert "Allocations" in names
        assert "Zoom in" not in names
        assert "Light or dark" not in names


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 800)])
def test_themes_and_widths(dead_run, dark, width):
    _, page = dead_run
    with Browser(width, dark=dark) as browser:
        browser.open(page)
        assert browser.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(re.search(r"\d+", background).group()) < 60) == dark
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.evaluate("document.getElementById('theme').click()")
        assert browser.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")
        assert browser.problems == []


def test_settings_that_were_tried(dead_run, drydock_command, browser, tmp_path):
    run, _ = dead_run
    copied = tmp_path / "ledger.sqlite"
    copied.write_bytes((run / "ledger.sqlite").read_bytes())
    with sqlite3.connect(copied) as ledger:
        ledger.execute(
            "CREATE TABLE tune_results(setting, peak_reserved_bytes, peak_allocated_bytes, fragmentation, retries, "
            "driver_calls, fits, margin_bytes, pareto, confirmed)"
        )
        ledger.execute(
            "INSERT INTO tune_results VALUES('max_split_size_mb:64', 2147483648, 1073741824, 0.5, 2, 40, 1, -5, 1, 0)"
        )
        # A search's grid: its end is the default, and the page does not show a thousand rows.
        ledger.executemany(
            "INSERT INTO tune_results VALUES(?, 2147483648, 1073741824, 0.5, 2, 40, 0, -5, ?, 0)",
            [(f"max_split_size_mb:{size}", size == 700) for size in range(100, 1150)]
            + [("", False)]
            + [("x:1", False)],
        )
    page = tmp_path / "report.html"
    made = report(drydock_command, copied, page)
    assert made.returncode == 0, made.stderr
    browser.open(page)
    assert browser.problems == []
    rows = browser.evaluate("[...document.querySelectorAll('#tune tbody tr')].map((r) => r.cells[0].textContent)")
    assert len(rows) == 51, "the best 40, the best trade among the others, the worst 10"
    assert rows[0] == "max_split_size_mb:64"
    assert rows[40] == "max_split_size_mb:700"
    assert rows[-2:] == ["(default)", "x:1"]
    assert "1,002 between are left out" in browser.evaluate(
        "document.querySelector('#tune').closest('section').textContent"
    )
    cells = browser.evaluate("[...document.querySelectorAll('#tune tbody td')].map((c) => c.textContent)")
    assert cells[:10] == ["max_split_size_mb:64", "2.00 GiB", "1.00 GiB", "50.0%", "2", "40", "yes", "-5 B", "yes", ""]
    # A ledger alone has no traces: the page says so and still has the verdict.
    assert "no curve" in browser.evaluate("document.querySelector('.missing').textContent")


def test_two_devices_have_a_selector(run_program, drydock_command, browser, tmp_path):
    run = run_program(
        "import torch, torch_npu\na = torch.ones(1 << 20, device='npu:0')\nb = torch.ones(1 << 22, device='npu:1')\n",
        options=("--devices", "2"),
    )
    page = tmp_path / "report.html"
    assert report(drydock_command, run.folder, page).returncode == 0
    browser.open(page)
    assert browser.problems == []
    visible = "[...document.querySelectorAll('section.device')].filter((s) => !s.hidden).map((s) => s.id)"
    assert browser.evaluate(visible) == ["device0"]
    browser.evaluate(
        "(() => { const s = document.getElementById('device'); s.value = 'device1';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert browser.evaluate(visible) == ["device1"]
    assert "16.00 MiB" in browser.evaluate("document.querySelector('#device1 .frames').textContent")
    assert browser.problems == []


def test_runs_without_what_the_page_needs(run_program, drydock_command, browser, tmp_path):
    page = tmp_path / "report.html"
    made = report(drydock_command, tmp_path / "nothing", page)
    assert made.returncode == 2
    assert "nothing" in made.stderr
    assert not page.exists()

    run = run_program("print('no device')\n")
    assert report(drydock_command, run.folder, page).returncode == 0
    browser.open(page)
    assert browser.problems == []
    assert "No trace of this run" in browser.evaluate("document.body.textContent")

    made = report(drydock_command, run.folder, tmp_path / "no" / "folder" / "report.html")
    assert made.returncode == 2
    assert "can't be written" in made.stderr
