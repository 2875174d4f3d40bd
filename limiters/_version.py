"""The version of this package, which stands in one place: the metadata of what is installed."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """`__version__`. AttributeError, so that `getattr` with a default works, where only the files
    are on the path and nothing is installed, as in an archive that Spark ships."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Here, not above: importing it takes nearly half as long as importing all of `limiters`.
    from importlib import metadata

    try:
        return metadata.version("batch-dispatcher")
    except metadata.PackageNotFoundError:
        raise AttributeError(
            "there is no __version__: batch-dispatcher is not installed, only its files are on the "
            "path"
        ) from None
