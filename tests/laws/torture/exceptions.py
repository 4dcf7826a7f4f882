"""What a subject cannot offer, or does otherwise by its own formula, beside what it lacks."""

_ALL_AROUND = "a fifth of outliers all around leaves the density of the bulk within a nat"
_TWO_HILLS = "one outlier leaves the density of two hills within a nat on average"
_TWICE = "every row twice changes log densities by less than half a nat on average"
_SCIPY = "scipy gaussian_kde"
_TRUE = "every parameter refuses True by its name"

_SILHOUETTES = "silhouettes prefer few clusters beside far outliers"
_VECTOR = "takes a vector for samples of one feature"
_COUNTED = "repeated rows count among the nearest neighbours"

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
}
