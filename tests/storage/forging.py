"""Model files taken apart and put together again, with a checksum that is right."""

import hashlib
import io
import json
import warnings
import zipfile

import numpy as np

HEADER = "header.json"
#: Two clusters of few samples.
FEW = np.random.RandomState(0).standard_normal((12, 2)) + 4 * (np.arange(12) % 2)[:, None]


def assert_identical(a, b):
    """The same types and the same bits all the way down."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_identical(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_identical(a[key], b[key])
    elif hasattr(a, "to_json"):
        assert a.to_json() == b.to_json()
    elif hasattr(a, "__dict__"):
        assert_identical(parts_of(a), parts_of(b))
    else:
        assert a == b
        assert repr(a) == repr(b)


def parts_of(value):
    """The attributes of an object that are stored; densities compute others from them."""
    left_out = ("_log_sums", "_tree", "_fitted_library")
    return {k: v for k, v in vars(value).items() if k not in left_out}


def signed(data):
    """Replace the last 64 bytes by the digest of those before them."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def archive_of(members, compression=zipfile.ZIP_STORED):
    """Return a signed archive of (name, bytes)."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore", UserWarning)  # two members of one name
        archive.comment = b"0" * 64
        for name, data in members:
            archive.writestr(name, data)
    return signed(buffer.getvalue())


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def taken_apart(path):
    """Return the header of a file, and its arrays by name."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != HEADER}
        return json.loads(archive[HEADER]), arrays


def members_of(header, arrays):
    yield HEADER, json.dumps(header).encode()
    for name, array in arrays.items():
        yield f"{name}.npy", npy(array)


def put_together(path, header, arrays, compression=zipfile.ZIP_STORED, more=()):
    path.write_bytes(archive_of([*members_of(header, arrays), *more], compression))


def place_in(header, name):
    """Return the dict or list that holds a value of the model, and its key there."""
    *parents, last = name.split(".")
    node = fields_of(header["model"])
    for key in parents:
        node = fields_of(node[int(key) if isinstance(node, list) else key])
    return node, int(last) if isinstance(node, list) else last


def fields_of(node):
    for key in ("fitted", "fields", "tuple"):
        if key in node:
            return node[key]
    return node
