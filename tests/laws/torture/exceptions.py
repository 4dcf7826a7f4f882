"""What a subject cannot offer, or does otherwise by its own formula, beside what it lacks."""

_ALL_AROUND = "a fifth of outliers all around leaves the density of the bulk within a nat"
_TWO_HILLS = "one outlier leaves the density of two hills within a nat on average"
_TWICE = "every row twice changes log densities by less than half a nat on average"
_SCIPY = "scipy gaussian_kde"
_TRUE = "every parameter refuses True by its name"

_SILHOUETTES = "silhouettes prefer few clusters beside far outliers"
_VECTOR = "takes a vector for samples of one feature"
_COUNTED = "repeated rows count among the nearest neighbours"

_LOG = "ROME(support={0: (-100.0, None, 'log')})"
_MIRROR = "GaussianKDE(support={0: (-100.0, 10000.0, 'mirror')})"
_CIRCLE = "ROME(support={0: ('circular', 400.0)})"
_RAYS = "the density falls along every ray that leaves the samples"
_BOUND_OF_ONE = "the support is that of the first feature, and does not move with the samples"

#: By the names of case and subject.
EXCEPTIONS: dict[tuple[str, str], str] = {
    (_ALL_AROUND, "ROME()"): _SILHOUETTES,
    (_ALL_AROUND, "ROME(decorrelate=False)"): _SILHOUETTES,
    (_ALL_AROUND, "ROME(density='gaussian')"): _SILHOUETTES,
    (_ALL_AROUND, "ROME(density='mpw')"): _SILHOUETTES,
    (_ALL_AROUND, "ROME(start='first')"): _SILHOUETTES,
    (_ALL_AROUND, "compat.ROME()"): _SILHOUETTES,
    (_TWO_HILLS, "ROME(decorrelate=False)"): _SILHOUETTES,
    (_TWO_HILLS, "ROME(density='gaussian')"): _SILHOUETTES,
    (_TWO_HILLS, "ROME(density='mpw')"): _SILHOUETTES,
    (_TWICE, "ROME(density='mpw')"): _COUNTED,
    (_TWICE, "ManifoldParzen()"): _COUNTED,
    (
        "the score is the mean of the log densities",
        "sklearn KernelDensity()",
    ): "its score is the sum",
    (_TRUE, "sklearn KernelDensity()"): "takes True for one, as all of scikit-learn",
    (_TRUE, "sklearn GaussianMixture(2)"): "takes True for one, as all of scikit-learn",
    (_TRUE, _SCIPY): "takes True for one",
    ("fit refuses a vector", _SCIPY): _VECTOR,
    ("fit refuses a vector as a list", _SCIPY): _VECTOR,
    ("a refit that is refused for a vector keeps the old model", _SCIPY): _VECTOR,
    ("a query refuses no rows", _SCIPY): "answers with an empty array",
    (_RAYS, _MIRROR): "the density is zero beyond a bound",
    (_RAYS, _CIRCLE): "a ray returns along a circle",
    ("queries at 1e20 are no NaN", _CIRCLE): "a far query may return along a circle",
    ("an offset of 1e9 changes the density by no more than rounding", _LOG): _BOUND_OF_ONE,
    ("the origin does not matter (1000)", _LOG): _BOUND_OF_ONE,
    ("the origin does not matter (1/3)", _LOG): _BOUND_OF_ONE,
    ("reflections do not matter (of all features)", _LOG): _BOUND_OF_ONE,
    ("the order of the features does not matter", _LOG): _BOUND_OF_ONE,
    ("the order of five features does not matter", _LOG): _BOUND_OF_ONE,
}
