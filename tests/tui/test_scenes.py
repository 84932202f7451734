"""Every scene looks as in `screenshots/`. `pytest tests/tui/test_scenes.py --update-screenshots` rewrites them."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from .flying import rows
from .scenes import SCENES, SCREENSHOTS, Scene, picture


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_the_scene_looks_as_in_its_picture(scene: Scene, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    svg = await picture(scene, tmp_path)
    path = SCREENSHOTS / f"{scene.name}.svg"
    if request.config.getoption("--update-screenshots"):
        path.write_text(svg, encoding="utf-8", newline="\n")
        return
    assert path.exists(), f"{path.name} is missing: run pytest with --update-screenshots and look at it"
    golden = path.read_text(encoding="utf-8")
    if svg == golden:
        return
    diff = list(difflib.unified_diff(rows(golden), rows(svg), "golden", "now", lineterm="", n=1))
    pytest.fail("\n".join(diff) if diff else f"{path.name}: the same text in other colours or styles", pytrace=False)


def test_every_picture_has_its_scene() -> None:
    assert {path.stem for path in SCREENSHOTS.glob("*.svg")} <= {scene.name for scene in SCENES}
