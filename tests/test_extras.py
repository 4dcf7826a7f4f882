"""Optional libraries: imported quietly, and named in an error if they are missing or broken."""

import warnings

import pytest

from sevenhills.extras import import_extra


def test_an_extra_is_imported_without_its_warnings(tmp_path, monkeypatch):
    (tmp_path / "noisy_extra.py").write_text("import warnings\nwarnings.warn('old')\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_extra("noisy_extra", "noise", "this").value == 3
    with pytest.raises(ImportError, match=r"^this; install it with: pip install 'sevenhills\[a\]'"):
        import_extra("no_such_extra", "a", "this")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("from math import no_such_name", "ImportError: cannot import name 'no_such_name'"),
        ("raise OSError('libgomp.so.1: no such file')", "OSError: libgomp.so.1: no such file"),
        ("import broken_extra.part", "ModuleNotFoundError: "),
    ],
)
def test_a_broken_extra_is_not_called_missing(source, message, tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text(source + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^this; broken_extra is installed") as caught:
        import_extra("broken_extra", "noise", "this")
    assert message in str(caught.value)
    assert "pip install" not in str(caught.value)
    assert type(caught.value.__cause__).__name__ == message.partition(":")[0]


def test_an_extra_without_a_part_of_it_is_missing():
    with pytest.raises(ImportError, match=r"^this; install it with"):
        import_extra("no_such_extra.part", "a", "this")
