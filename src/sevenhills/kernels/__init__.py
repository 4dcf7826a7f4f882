"""Hot loops: arrays in, arrays out; no classes, no validation.

Every function here is compiled by numba at its first call, releases the GIL and is cached on
disk. Coordinates are stored feature-major wherever a loop runs over points, so that the loop
vectorises: ``columns[m, i]`` is feature ``m`` of point ``i``.
"""
