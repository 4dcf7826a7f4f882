"""Values as JSON and arrays, and back.

==========================  ======================================================================
value                       JSON
==========================  ======================================================================
None, bool, number, string  the same
list                        list
tuple                       ``{"tuple": [...]}``
dict                        ``{"dict": [[key, value], ...]}``; keys are strings or integers
array                       ``{"array": name}``; the array is a member of the file
array of strings (objects)  ``{"names": [...]}``
record                      ``{"record": class, "fields": {...}}``
estimator                   ``{"estimator": class, "parameters": {...}, "fitted": {...}}``
vine of pyvinecopulib       ``{"vine": name}``; its text is a member of the file
==========================  ======================================================================

A record is a dataclass, a NamedTuple or a density of this package. It is rebuilt by its
constructor and checked by its method ``_validate``, if there is one. The type hints of a class say
which records and values its attributes may hold; anything else is refused.
"""

import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..extras import import_extra
from .archive import ModelFileError, naming_part

#: The name of the model itself; parts of it are named without it.
ROOT = "model"
#: Kinds of arrays that are stored: truth values, integers, floats and strings.
_KINDS = "biufU"
#: Attributes that scikit-learn sets, so that no class declares them.
_FEATURES = {"n_features_in_": int, "feature_names_in_": np.ndarray}
#: Attributes that a fitted estimator need not have.
_OPTIONAL = {"feature_names_in_"}
#: Attributes that are left out of files: the containers of results.
_LEFT_OUT = {"_fitted_library", "_sklearn_output_config"}


class Encoder:
    """Turns values into JSON and collects their arrays, little-endian, in ``arrays``.

    ``names`` are those of the estimators that can be stored.
    """

    def __init__(self, names: Mapping[type, str]) -> None:
        self._names = names
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Return a value as JSON; ``name`` is its place in the model."""
        if isinstance(value, np.ndarray):
            return self._encode_array(value, name)
        if isinstance(value, list):
            return self._encode_items(value, name)
        if type(value) is tuple:
            return {"tuple": self._encode_items(value, name)}
        if isinstance(value, Mapping):
            return {"dict": [self._encode_items(pair, name) for pair in value.items()]}
        if type(value) in self._names:
            return self._encode_estimator(value, name)
        if _is_record(type(value)):
            fields = {key: getattr(value, key) for key in _fields_of(type(value))}
            return {"record": type(value).__name__, "fields": self._encode_fields(fields, name)}
        if hasattr(value, "to_json"):
            return self._encode_vine(value, name)
        return _encode_scalar(value, name)

    def _encode_items(self, values: Iterable[Any], name: str) -> list[Any]:
        return [self.encode(value, part_of(name, str(i))) for i, value in enumerate(values)]

    def _encode_fields(self, fields: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {key: self.encode(value, part_of(name, key)) for key, value in fields.items()}

    def _encode_array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype == object and all(isinstance(each, str) for each in array):
            return {"names": [_encode_scalar(each, name) for each in array]}
        if array.dtype.kind not in _KINDS:
            raise ModelFileError(f"{name}: arrays of {array.dtype} cannot be stored")
        self.arrays[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        return {"array": name}

    def _encode_vine(self, vine: Any, name: str) -> dict[str, Any]:
        text = vine.to_json()
        if type(vine).from_json(text).to_json() != text:
            raise ModelFileError(f"{name}: pyvinecopulib cannot read the text that it wrote")
        self.arrays[name] = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
        return {"vine": name}

    def _encode_estimator(self, model: Any, name: str) -> dict[str, Any]:
        parameters, declared = model.get_params(deep=False), _declared_by(type(model))
        known = {*parameters, *_LEFT_OUT}
        fitted = {key: value for key, value in vars(model).items() if key not in known}
        for key in fitted:
            if key not in declared:
                raise ModelFileError(
                    f"{part_of(name, key)}: not declared as an attribute of {type(model).__name__}"
                )
        return {
            "estimator": self._names[type(model)],
            "parameters": self._encode_fields(parameters, part_of(name, "parameters")),
            "fitted": self._encode_fields(fitted, name),
        }


class Decoder:
    """Turns JSON and arrays back into values.

    ``classes`` are the estimators that can be stored. ``check_fitted`` raises a ModelFileError if
    the fitted attributes of an estimator contradict each other.
    """

    def __init__(
        self,
        classes: Mapping[str, type],
        arrays: Mapping[str, np.ndarray],
        check_fitted: Callable[[Mapping[str, Any], str], None],
    ) -> None:
        self._classes = classes
        self._arrays = dict(arrays)
        self._check_fitted = check_fitted

    def decode(self, tree: Any, hint: Any, name: str) -> Any:
        """Return the value that ``tree`` describes, which must be of the type ``hint``."""
        value = self._decode(tree, hint, name)
        if not _conforms(value, hint):
            expected = " or ".join(map(_described, _options(hint)))
            raise ModelFileError(f"{name}: must be {expected}, got {_described(type(value))}")
        return value

    def finish(self) -> None:
        """Raise an error if there are arrays that belong to no value."""
        for name in self._arrays:
            raise ModelFileError(f"{name}: not part of the model")

    def _decode(self, tree: Any, hint: Any, name: str) -> Any:
        if isinstance(tree, list):
            return self._decode_items(tree, hint, name)
        if not isinstance(tree, dict):
            return _encode_scalar(tree, name)
        match sorted(tree.items()):
            case [("tuple", list(items))]:
                return tuple(self._decode_items(items, hint, name))
            case [("dict", list(pairs))]:
                return self._decode_dict(pairs, name)
            case [("array", str(member))]:
                return self._decode_array(member, name)
            case [("names", list(names))]:
                return np.array([self.decode(each, str, name) for each in names], dtype=object)
            case [("vine", str(member))]:
                return self._decode_vine(member, name)
            case [("fields", dict(fields)), ("record", str(kind))]:
                return self._decode_record(kind, fields, hint, name)
            case [("estimator", str(kind)), ("fitted", dict(fit)), ("parameters", dict(given))]:
                return self._decode_estimator(kind, given, fit, name)
        raise ModelFileError(f"{name}: unknown content {str(tree)!r:.60}")

    def _decode_items(self, items: list[Any], hint: Any, name: str) -> list[Any]:
        hints = [get_args(each)[0] for each in _options(hint) if get_args(each)]
        each_hint = hints[0] if hints else Any
        return [self.decode(item, each_hint, part_of(name, str(i))) for i, item in enumerate(items)]

    def _decode_dict(self, pairs: list[Any], name: str) -> dict[Any, Any]:
        items = [self.decode(each, list, name) for each in pairs]
        if not all(len(each) == 2 and isinstance(each[0], str | int) for each in items):
            raise ModelFileError(f"{name}: must be pairs of a name or an index and a value")
        return dict(items)

    def _decode_array(self, member: str, name: str) -> np.ndarray:
        if member not in self._arrays:
            raise ModelFileError(f"{name}: missing")
        array = self._arrays.pop(member)
        if array.dtype.kind not in _KINDS:
            raise ModelFileError(f"{name}: arrays of {array.dtype} cannot be stored")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ModelFileError(f"{name}: holds values that are not finite")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def _decode_vine(self, member: str, name: str) -> Any:
        library = import_extra("pyvinecopulib", "vine", "a stored VineDensity needs pyvinecopulib")
        text = self._decode_array(member, name)
        with naming_part(name):
            return library.Vinedist.from_json(text.tobytes().decode("utf-8"))

    def _decode_record(self, kind: str, fields: dict[str, Any], hint: Any, name: str) -> Any:
        records = {each.__name__: each for each in _options(hint) if _is_record(each)}
        if kind not in records:
            raise ModelFileError(f"{name}: must be one of {list(records)}, got {kind!r}")
        record = records[kind]
        hints = get_type_hints(record)
        known = {key: hints.get(key, Any) for key in _fields_of(record)}
        values = self._decode_fields(fields, known, name, kind)
        with naming_part(name):
            made = record(**values)
            if hasattr(made, "_validate"):
                made._validate()
        return made

    def _decode_estimator(
        self, kind: str, parameters: dict[str, Any], fitted: dict[str, Any], name: str
    ) -> Any:
        if kind not in self._classes:
            raise ModelFileError(f"{name}: must be one of {list(self._classes)}, got {kind!r}")
        cls = self._classes[kind]
        place = part_of(name, "parameters")
        known = dict.fromkeys(inspect.signature(cls).parameters, Any)
        values = self._decode_fields(parameters, known, place, kind)
        with naming_part(place):
            model = cls(**values)
            if hasattr(model, "_check_parameters"):
                model._check_parameters()
        if fitted:
            found = self._decode_fields(fitted, _declared_by(cls), name, kind)
            self._check_fitted(found, name)
            vars(model).update(found)
        return model

    def _decode_fields(
        self, fields: dict[str, Any], known: Mapping[str, Any], name: str, kind: str
    ) -> dict[str, Any]:
        for key in fields:
            if key not in known:
                raise ModelFileError(f"{part_of(name, key)}: not part of a {kind}")
        for key in known:
            if key not in fields and key not in _OPTIONAL:
                raise ModelFileError(f"{part_of(name, key)}: missing")
        return {
            key: self.decode(value, known[key], part_of(name, key)) for key, value in fields.items()
        }


def part_of(name: str, part: str) -> str:
    """Return the name of a part of a value."""
    return part if name == ROOT else f"{name}.{part}"


def _encode_scalar(value: Any, name: str) -> Any:
    """Return a number, a string or None as a plain value, which JSON holds."""
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise ModelFileError(f"{name}: must be finite, got {value}")
        return float(value)
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ModelFileError(f"{name}: {value!a} cannot be written as UTF-8; rename it")
        return str(value)
    advice = "; set it to an integer or None first" if name.endswith("random_state") else ""
    raise ModelFileError(f"{name}: a {type(value).__name__} cannot be stored{advice}")


# Declarations of classes


def _is_record(cls: Any) -> bool:
    return isinstance(cls, type) and cls.__module__.startswith("sevenhills.")


def _fields_of(record: type) -> list[str]:
    return list(inspect.signature(record).parameters)


def _declared_by(estimator: type) -> dict[str, Any]:
    """Return the fitted attributes of an estimator with their type hints."""
    parameters = inspect.signature(estimator).parameters
    hints = get_type_hints(estimator)
    return _FEATURES | {name: hint for name, hint in hints.items() if name not in parameters}


def _options(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the hint itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; its items have been checked before."""
    classes = [get_origin(each) or each for each in _options(hint)]
    # True is an int, but not a count.
    return Any in classes or any(
        type(value) is cls if cls in (bool, int, float) else isinstance(value, cls)
        for cls in classes
    )


def _described(hint: Any) -> str:
    return "None" if hint is type(None) else getattr(hint, "__name__", str(hint))
