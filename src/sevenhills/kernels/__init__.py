"""Hot loops: arrays in, arrays out; no classes, no validation.

Loops are compiled by numba at their first call, release the GIL and are cached on disk.
Coordinates are stored feature-major wherever a loop runs over points, so that it vectorizes:
``columns[m, i]`` is feature ``m`` of point ``i``.
"""
