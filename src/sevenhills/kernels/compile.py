"""The ways in which this project compiles a function, all of them at its first call."""

from numba import njit

#: Kept on disk, without the GIL, dividing like numpy; every operation rounds as written.
kernel = njit(cache=True, nogil=True, error_model="numpy")

#: The same, where a product may be added without being rounded first.
fused_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})

#: The same, where sums may also be reordered so that they vectorise.
summing_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
