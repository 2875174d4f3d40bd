"""Converts rows to bytes and back: a header and an Arrow record batch without its schema.

These parcels are kept in Spark's state, and pass between the steps of one query. Reading them
cannot run code, and every type of Arrow is preserved.
"""

from __future__ import annotations

import json

import pyarrow as pa

from dispatcher.spark.stateful._columns import fingerprint

_VERSION = b"D1"
_LENGTH = 4
_JSON = json.JSONEncoder(separators=(",", ":"))


def compact(header: object) -> bytes:
    """Return a header as JSON. All calls share one encoder, since json.dumps would make one for
    each."""
    return _JSON.encode(header).encode()


class Parcels:
    """Packs rows of one schema into parcels, each with a header that its writer chooses.

    >>> parcels = Parcels(pa.schema([("id", pa.int64())]))
    >>> rows = pa.record_batch([[1, 2]], schema=parcels.schema)
    >>> header, again = parcels.unpack(parcels.pack(b"by me", rows))
    >>> header, again.to_pylist()
    (b'by me', [{'id': 1}, {'id': 2}])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.none = pa.RecordBatch.from_pylist([], schema=schema)
        self._prefix = _VERSION + fingerprint(schema).encode()
        self._header = len(self._prefix)
        self._body = self._header + _LENGTH

    def pack(self, header: bytes, rows: pa.RecordBatch) -> bytes:
        """Return the parcel of `header` and `rows`."""
        size = len(header).to_bytes(_LENGTH, "big")
        body = rows.serialize() if rows.num_rows else b""
        return b"".join((self._prefix, size, header, body))

    def unpack(self, data: bytes) -> tuple[bytes, pa.RecordBatch]:
        """Return the header and the rows of a parcel. ValueError says why `data` cannot be read."""
        if not data.startswith(self._prefix):
            raise ValueError(self._refusal(data))
        size = int.from_bytes(data[self._header : self._body], "big")
        end = self._body + size
        try:
            if end == len(data):
                rows = self.none
            else:
                rows = pa.ipc.read_record_batch(pa.py_buffer(data).slice(end), self.schema)
                _check(rows)
        except (ValueError, OSError, EOFError, pa.ArrowException) as error:
            raise ValueError(f"the state in the checkpoint is damaged: {error}") from error
        return data[self._body : end], rows

    def _refusal(self, data: bytes) -> str:
        if not data.startswith(_VERSION[:1]):
            return "the state in the checkpoint is none of this step: use another checkpoint"
        if not data.startswith(_VERSION):
            return (
                "the state in the checkpoint has another format than this version of dispatcher "
                "reads: go on with the version that wrote it, or begin a new checkpoint"
            )
        return (
            "the state in the checkpoint holds rows of other columns than df has now "
            f"({', '.join(self.schema.names)}): give df the columns it had, or begin a new "
            "checkpoint"
        )


def _check(rows: pa.RecordBatch) -> None:
    """Raise if offsets in the record batch are damaged: Arrow trusts them, and wrong ones would
    crash the process."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        for column in rows.columns:
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                if "UTF8" not in str(error):  # texts are as Spark has them
                    raise
