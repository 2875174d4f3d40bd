"""`python -m grafana`: write the generated files."""

from __future__ import annotations

from grafana.files import HERE, files


def main() -> None:
    """Write the files, and remove dashboards that no longer exist."""
    made = files()
    for old in set((HERE / "dashboards").glob("*.json")) - set(made):
        old.unlink()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(HERE.parent))


if __name__ == "__main__":
    main()
