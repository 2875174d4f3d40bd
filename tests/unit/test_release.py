"""A release: one version, in one place, and nothing is published before all is done."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dispatcher
import hatch_build
import limiters
from tests import release

ROOT = Path(__file__).parents[2]
DONE: dict[str, Any] = {
    "changelog": "# Changelog\n\n## 1.2.0 (2026-05-01)\n",
    "fragments": [],
    "security": "> Contact: security@example.org",
    "tags": ["v1.2.0"],
    "changed": [],
    "readme": "See [the docs](https://example.org/docs) and [below](#more).",
    "urls": {"Documentation": "https://example.org/docs"},
}


def test_nothing_is_left_to_do_when_all_is_done() -> None:
    assert release.left_to_do("1.2.0", **DONE) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"changelog": "# Changelog\n\n## 1.2.01 (2026-05-01)\n"}, "no section '## 1.2.0 (DATE)'"),
        ({"fragments": ["12.fixed.md"]}, "12.fixed.md: run .venv/bin/towncrier build"),
        ({"security": f"> {release.NO_CONTACT}"}, "name an address"),
        ({"tags": ["v1.1.0"]}, "git tag --annotate v1.2.0"),
        ({"changed": ["M README.md"]}, "not committed: M README.md"),
        ({"changelog": "## Unreleased\n\n## 1.2.0 (2026-05-01)\n"}, "the heading 'Unreleased'"),
        ({"readme": "![a](docs/demo.svg) and [b](https://c)"}, "not absolute: docs/demo.svg"),
        ({"urls": {}}, "[tool.hatch.metadata.hooks.custom]"),
    ],
)
def test_what_is_left_to_do_is_named(changed: dict[str, Any], said: str) -> None:
    (found,) = release.left_to_do("1.2.0", **DONE | changed)
    assert said in found


def test_the_contact_has_one_place() -> None:
    said = (ROOT / "SECURITY.md").read_text()
    assert len(re.findall(r"^> Contact: \S", said, re.MULTILINE)) == 1


def test_a_file_too_much_or_too_few_is_named() -> None:
    tracked = ["dispatcher/a.py", "limiters/b.lua", "README.md"]
    wheel = ["dispatcher/a.py", "x-1.dist-info/METADATA", "tests/test_a.py"]
    assert release.wrong_contents(wheel, [*tracked, "PKG-INFO", ".env"], tracked) == [
        "the wheel lacks limiters/b.lua",
        "the wheel has tests/test_a.py",
        "the archive has .env",
    ]


def test_the_readme_that_is_built_has_absolute_links() -> None:
    text = (ROOT / "README.md").read_text()
    assert release.RELATIVE_LINK.findall(text)
    built = hatch_build.readme(text, "https://example.org/project", "1.2.0")
    assert release.RELATIVE_LINK.findall(built) == []
    assert "(https://example.org/project/raw/v1.2.0/docs/demo.svg)" in built
    assert "(https://example.org/project/blob/v1.2.0/docs/tutorial.md)" in built
    assert hatch_build.readme(text, "", "1.2.0") == text


def test_no_module_states_the_version_again() -> None:
    stated = re.compile(r"^(__version__|VERSION) *[:=]|[\"']" + re.escape(release.version()), re.M)
    modules = [path for top in ("dispatcher", "limiters") for path in (ROOT / top).rglob("*.py")]
    assert [path for path in modules if stated.search(path.read_text())] == []


def test_the_readme_speaks_of_this_version() -> None:
    minor = release.version().rpartition(".")[0]
    assert set(re.findall(r"version (\d+\.\d+)\b", (ROOT / "README.md").read_text())) == {minor}


def forget_version(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the version as if it had never been read; what a test sets is reset as well."""
    monkeypatch.setitem(vars(package), "__version__", "")
    del vars(package)["__version__"]


@pytest.mark.parametrize("package", [dispatcher, limiters], ids=lambda one: str(one.__name__))
class TestTheVersionOfAPackage:
    def test_is_that_of_what_is_installed(self, package: ModuleType) -> None:
        assert package.__version__ == metadata.version("batch-dispatcher")

    def test_is_looked_up_when_asked_for(
        self, package: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Reading metadata takes long, and hardly any program asks for the version."""
        forget_version(package, monkeypatch)
        monkeypatch.setattr(metadata, "version", lambda name: f"{name} 7")

        assert package.__version__ == "batch-dispatcher 7"

    def test_is_no_attribute_where_nothing_is_installed(
        self, package: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def version(name: str) -> str:
            raise metadata.PackageNotFoundError(name)

        forget_version(package, monkeypatch)
        monkeypatch.setattr(metadata, "version", version)
        assert getattr(package, "__version__", None) is None
        with pytest.raises(AttributeError, match="batch-dispatcher is not installed"):
            package.__version__  # noqa: B018

    def test_is_the_only_name_made_up(self, package: ModuleType) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'other'"):
            package.other  # noqa: B018
